#include "world/rendezvous/identity.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace sennit {
namespace {

using Variables = std::map<std::string, std::string>;

Result<Identity> identity_of(const Variables& variables, std::string_view parent = "10:20") {
  return identity_from(
      [&](const char* name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      parent);
}

const Variables kSennit = {{"SENNIT_RANK", "1"}, {"SENNIT_SIZE", "4"}, {"SENNIT_KEY", "job"}};
const Variables kTorchrun = {
    {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"PMIX_NAMESPACE", "prterun-node7-123@1"}};
const Variables kHydra = {{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}};
const Variables kSlurm = {
    {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}};

TEST(Identity, ComesFromTheVariablesOfEachLauncher) {
  const struct {
    const Variables& variables;
    int rank;
    int size;
  } cases[] = {
      {kSennit, 1, 4}, {kTorchrun, 2, 4}, {kOpenMpi, 3, 4}, {kHydra, 0, 4}, {kSlurm, 1, 2}};
  for (const auto& each : cases) {
    const Result<Identity> identity = identity_of(each.variables);
    ASSERT_TRUE(identity.ok()) << identity.status().message();
    EXPECT_EQ(identity->rank, each.rank) << identity->key;
    EXPECT_EQ(identity->size, each.size) << identity->key;
  }
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) {
    variables[name] = value;
  }
  return variables;
}

TEST(Identity, OnOneNodeThereIsNoRoot) {
  for (const Variables& variables :
       {kSennit,
        with(kTorchrun, {{"LOCAL_WORLD_SIZE", "4"}}),
        with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
        with(kHydra, {{"MPI_LOCALNRANKS", "4"}}),
        with(kSlurm, {{"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NODELIST", "node7"}}),
        with(kTorchrun, {{"LOCAL_WORLD_SIZE", "many"}})}) {
    const Result<Identity> identity = identity_of(variables);
    ASSERT_TRUE(identity.ok()) << identity.status().message();
    EXPECT_EQ(identity->root, "") << identity->key;
  }
}

TEST(Identity, OnSeveralNodesTheLauncherOrSennitRootSaysWhereRankZeroIs) {
  const struct {
    Variables variables;
    const char* root;
  } cases[] = {
      {with(kTorchrun, {{"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "node7"}}), "node7"},
      {with(kSlurm, {{"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "node[07-09,12],x"}}),
       "node07"},
      {with(kSennit, {{"SENNIT_ROOT", "node8:1"}}), "node8:1"},
      {with(kTorchrun, {{"LOCAL_WORLD_SIZE", "2"}, {"SENNIT_ROOT", "node8"}}), "node8"},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"SENNIT_ROOT", "node8"}}), "node8"},
      {with(kHydra, {{"MPI_LOCALNRANKS", "2"}, {"SENNIT_ROOT", "node8"}, {"SENNIT_KEY", "job"}}),
       "node8"},
  };
  for (const auto& each : cases) {
    const Result<Identity> identity = identity_of(each.variables);
    ASSERT_TRUE(identity.ok()) << identity.status().message();
    EXPECT_EQ(identity->root, each.root) << identity->key;
  }
}

TEST(Identity, ALauncherThatDoesNotSayWhereRankZeroIsNeedsSennitRoot) {
  for (const Variables& variables : {with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
                                     with(kHydra, {{"MPI_LOCALNRANKS", "2"}})}) {
    const Result<Identity> identity = identity_of(variables);
    ASSERT_FALSE(identity.ok());
    EXPECT_EQ(identity.status().code(), Code::kInvalidUsage);
    EXPECT_NE(identity.status().message().find("set SENNIT_ROOT"), std::string::npos);
  }
  const Variables no_key = with(kHydra, {{"MPI_LOCALNRANKS", "2"}, {"SENNIT_ROOT", "node8"}});
  EXPECT_NE(identity_of(no_key).status().message().find("set SENNIT_KEY"), std::string::npos);
  const Variables keyed = with(no_key, {{"SENNIT_KEY", "job"}});
  EXPECT_EQ(identity_of(keyed, "1:2")->key, identity_of(keyed, "3:4")->key)
      << "each node has a parent process of its own";
}

TEST(Identity, WhatVariablesDoNotSayTheLauncherTells) {
  const auto identity_by = [](const Variables& variables, const MeetByLauncher& meet) {
    const auto lookup = [&](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    return identity_from(lookup, "10:20", meet);
  };
  const auto meet = [](int) -> Result<MeetingPlace> { return MeetingPlace{"secret", "10.0.0.7"}; };
  const auto nowhere = [](int) -> Result<MeetingPlace> {
    return fail(Code::kUnsupported, "no way is known");
  };
  const Variables hydra = with(kHydra, {{"MPI_LOCALNRANKS", "2"}});
  for (const Variables& variables :
       {with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}), hydra}) {
    const Result<Identity> identity = identity_by(variables, meet);
    ASSERT_TRUE(identity.ok()) << identity.status().message();
    EXPECT_EQ(identity->key, "secret");
    EXPECT_EQ(identity->root, "10.0.0.7");
    EXPECT_TRUE(identity->is_key_secret);
    EXPECT_EQ(identity->size, 4);
    const Status failed = identity_by(variables, nowhere).status();
    EXPECT_EQ(failed.code(), Code::kInvalidUsage);
    EXPECT_NE(failed.message().find("set SENNIT_ROOT"), std::string::npos) << failed.message();
    EXPECT_NE(failed.message().find("no way is known"), std::string::npos) << failed.message();
  }
  EXPECT_EQ(identity_by(with(hydra, {{"SENNIT_ROOT", "node8"}}), meet)->root, "node8");
  // Who has said all is not asked.
  for (const Variables& variables :
       {kHydra, with(hydra, {{"SENNIT_ROOT", "node8"}, {"SENNIT_KEY", "job"}})}) {
    EXPECT_TRUE(identity_by(variables, nowhere).ok());
  }
}

TEST(Identity, TheFirstHostOfAListIsFound) {
  EXPECT_EQ(first_host("node7"), "node7");
  EXPECT_EQ(first_host("node7,node8"), "node7");
  EXPECT_EQ(first_host("node[07-09,12],login"), "node07");
  EXPECT_EQ(first_host("rack[1-2]node[3,4]-ib,x"), "rack1node3-ib");
  EXPECT_EQ(first_host("node["), "node");
  EXPECT_EQ(first_host(""), "");
}

TEST(Identity, TheFirstCompleteSetCounts) {
  Variables all = kSlurm;
  all.insert(kHydra.begin(), kHydra.end());
  EXPECT_EQ(identity_of(all)->key, identity_of(kHydra)->key);
  all.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(identity_of(all)->key, identity_of(kOpenMpi)->key);
  all["RANK"] = "1";  // begun, but without the rest it is nobody's
  EXPECT_EQ(identity_of(all)->key, identity_of(kOpenMpi)->key);
  all.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(identity_of(all)->key, identity_of(kTorchrun)->key);
  all.insert(kSennit.begin(), kSennit.end());
  EXPECT_EQ(identity_of(all)->key, identity_of(kSennit)->key);
}

TEST(Identity, TheKeyDependsOnEveryVariableOfTheJobAndOnNoRank) {
  for (const Variables* set : {&kSennit, &kTorchrun, &kOpenMpi, &kSlurm}) {
    const std::string key = identity_of(*set)->key;
    for (const auto& [name, value] : *set) {
      Variables changed = *set;
      const bool of_rank = name.ends_with("RANK") || name.ends_with("PROCID");
      changed[name] = of_rank ? "0" : value + "1";
      const bool of_size = name.ends_with("SIZE") || name.ends_with("NTASKS");
      EXPECT_EQ(identity_of(changed)->key == key, of_rank || of_size) << name;
    }
  }
}

TEST(Identity, ARestartOfTorchrunIsAnotherJob) {
  Variables restarted = kTorchrun;
  restarted["TORCHELASTIC_RUN_ID"] = "none";
  restarted["TORCHELASTIC_RESTART_COUNT"] = "0";
  const std::string first = identity_of(restarted)->key;
  EXPECT_NE(first, identity_of(kTorchrun)->key);
  restarted["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_NE(identity_of(restarted)->key, first);
}

TEST(Identity, JobsOfHydraAreToldApartByTheirParent) {
  EXPECT_EQ(identity_of(kHydra, "10:20")->key, identity_of(kHydra, "10:20")->key);
  EXPECT_NE(identity_of(kHydra, "10:20")->key, identity_of(kHydra, "10:21")->key);
  EXPECT_EQ(identity_of(kOpenMpi, "10:20")->key, identity_of(kOpenMpi, "10:21")->key);
}

TEST(Identity, WithoutACompleteSetTheErrorListsWhatWasLookedFor) {
  const Status nothing = identity_of({}).status();
  EXPECT_EQ(nothing.code(), Code::kInvalidUsage);
  for (const char* name : {"SENNIT_RANK",
                           "SENNIT_KEY",
                           "WORLD_SIZE",
                           "MASTER_PORT",
                           "PMIX_NAMESPACE",
                           "PMI_SIZE",
                           "SLURM_STEP_ID"}) {
    EXPECT_NE(nothing.message().find(name), std::string::npos) << name;
  }
  const Status half = identity_of({{"RANK", "1"}, {"MASTER_ADDR", "node7"}}).status();
  EXPECT_EQ(half.code(), Code::kInvalidUsage);
  EXPECT_EQ(half.detail().evidence, "of torchrun there is no WORLD_SIZE and no MASTER_PORT");
}

TEST(Identity, ABegunSetOfOurOwnIsNotReplacedByALaunchers) {
  Variables variables = kTorchrun;
  variables["SENNIT_RANK"] = "1";
  const Status status = identity_of(variables).status();
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_EQ(status.detail().evidence, "of Sennit there is no SENNIT_SIZE and no SENNIT_KEY");
}

TEST(Identity, RanksAndSizesThatDoNotParseAreNamed) {
  const struct {
    const char* name;
    const char* value;
  } wrong[] = {{"SENNIT_RANK", "4"},
               {"SENNIT_RANK", "-1"},
               {"SENNIT_RANK", "one"},
               {"SENNIT_SIZE", "0"},
               {"SENNIT_SIZE", "99999"}};
  for (const auto& each : wrong) {
    Variables variables = kSennit;
    variables[each.name] = each.value;
    const Status status = identity_of(variables).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << each.value;
    EXPECT_NE(status.message().find(std::string(each.name) + "='" + each.value), std::string::npos)
        << status.message();
  }
}

TEST(Identity, TheParentIsNamedWithItsStartTime) {
  const std::string parent = parent_process();
  const std::size_t colon = parent.find(':');
  ASSERT_NE(colon, std::string::npos);
  EXPECT_EQ(parent.find_first_not_of("0123456789:"), std::string::npos) << parent;
  EXPECT_GT(parent.size(), colon + 1) << "the start time is missing";
}

TEST(Identity, EachCallOfAProcessGetsAKeyOfItsOwn) {
  for (const auto& [name, value] : kSennit) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  const Result<Identity> first = identity_from_environment();
  const Result<Identity> second = identity_from_environment();
  for (const auto& [name, value] : kSennit) {
    unsetenv(name.c_str());
  }
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->rank, 1);
  EXPECT_NE(first->key, second->key);
  EXPECT_TRUE(first->key.starts_with(identity_of(kSennit)->key));
}

}  // namespace
}  // namespace sennit
