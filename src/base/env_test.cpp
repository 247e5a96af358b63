#include "base/env.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace sennit {
namespace {

// Sets a variable and puts back what was there.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* former = std::getenv(name); former != nullptr) {
      former_ = former;
    }
    if (value != nullptr) {
      setenv(name, value, 1);
    } else {
      unsetenv(name);
    }
  }
  ~ScopedVariable() {
    if (former_) {
      setenv(name_, former_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> former_;
};

TEST(Env, GivesTheDefaultOfTheRowWhenNothingIsSet) {
  const ScopedVariable timeout("SENNIT_JOIN_TIMEOUT_S", nullptr);
  const ScopedVariable ports("SENNIT_PORTS", "");
  EXPECT_EQ(env_seconds("SENNIT_JOIN_TIMEOUT_S").value(), 60.0);
  EXPECT_EQ(env_integer("SENNIT_PORTS").value(), 4) << "an empty value counts as none";
}

TEST(Env, ReadsTheVariableAtEachUse) {
  const ScopedVariable first("SENNIT_PATHS", "shm");
  EXPECT_EQ(env_text("SENNIT_PATHS"), "shm");
  const ScopedVariable second("SENNIT_PATHS", "cma");
  EXPECT_EQ(env_text("SENNIT_PATHS"), "cma");
}

TEST(Env, ErrorsNameTheVariableItsValueAndWhatIsAllowed) {
  const ScopedVariable slots("SENNIT_SLOTS", "many");
  const Status status = env_integer("SENNIT_SLOTS", {.min = 0, .max = 64}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "SENNIT_SLOTS='many' is not allowed; allowed: a whole number from 0 to 64");
}

TEST(Env, AMissingNumberWithoutDefaultIsAnError) {
  const ScopedVariable rank("SENNIT_RANK", nullptr);
  EXPECT_EQ(env_integer("SENNIT_RANK").status().message(),
            "SENNIT_RANK is not set; allowed: a whole number");
}

TEST(Env, IntegersAreReadWholeAndWithinTheirRange) {
  EXPECT_EQ(parse_integer("X", "-1").value(), -1);
  EXPECT_EQ(parse_integer("X", "64", {.min = 0, .max = 64}).value(), 64);
  for (const char* wrong :
       {"", " 1", "1 ", "1x", "0x10", "+1", "1.0", "65", "-1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_integer("X", wrong, {.min = 0, .max = 64}).ok()) << "'" << wrong << "'";
  }
}

TEST(Env, BytesTakeUnitsAndDoNotOverflow) {
  EXPECT_EQ(parse_bytes("X", "0").value(), 0u);
  EXPECT_EQ(parse_bytes("X", "4096").value(), 4096u);
  EXPECT_EQ(parse_bytes("X", "64K").value(), 65536u);
  EXPECT_EQ(parse_bytes("X", "2M").value(), 2097152u);
  EXPECT_EQ(parse_bytes("X", "1G").value(), 1073741824u);
  EXPECT_EQ(parse_bytes("X", "17179869183G").value(), 17179869183u << 30);
  for (const char* wrong :
       {"", "K", "-1", "1k", "1KB", "1.5M", "1 K", "17179869184G", "18446744073709551616"}) {
    EXPECT_FALSE(parse_bytes("X", wrong).ok()) << "'" << wrong << "'";
  }
}

TEST(Env, SecondsAreFinite) {
  EXPECT_EQ(parse_seconds("X", "0.5").value(), 0.5);
  EXPECT_EQ(parse_seconds("X", "-1").value(), -1.0);
  for (const char* wrong : {"", "nan", "inf", "1e999", "1s", "0,5", " 1"}) {
    EXPECT_FALSE(parse_seconds("X", wrong).ok()) << "'" << wrong << "'";
  }
}

TEST(Env, EveryRowHasADistinctNameATextAndADefaultThatParses) {
  std::set<std::string_view> names;
  for (const EnvVariable& variable : all_variables()) {
    EXPECT_TRUE(variable.name.starts_with("SENNIT_")) << variable.name;
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_FALSE(variable.text.empty()) << variable.name;
    if (variable.default_value.empty()) {
      continue;
    }
    switch (variable.type) {
      case EnvType::kText:
        break;
      case EnvType::kInteger:
        EXPECT_TRUE(parse_integer(variable.name, variable.default_value).ok()) << variable.name;
        break;
      case EnvType::kBytes:
        EXPECT_TRUE(parse_bytes(variable.name, variable.default_value).ok()) << variable.name;
        break;
      case EnvType::kSeconds:
        EXPECT_TRUE(parse_seconds(variable.name, variable.default_value).ok()) << variable.name;
        break;
    }
  }
}

TEST(Env, AllVariablesTellWhatIsSet) {
  const ScopedVariable key("SENNIT_KEY", "a job");
  const ScopedVariable folder("SENNIT_SOCKET_DIR", nullptr);
  for (const EnvVariable& variable : all_variables()) {
    if (variable.name == "SENNIT_KEY") {
      EXPECT_EQ(variable.value, "a job");
      EXPECT_EQ(env_type_name(variable.type), "text");
    } else if (variable.name == "SENNIT_SOCKET_DIR") {
      EXPECT_EQ(variable.value, std::nullopt);
    }
  }
}

TEST(Env, FindsVariablesThatNoRowNames) {
  const ScopedVariable misspelt("SENNIT_DEADLINE", "3");
  const ScopedVariable right("SENNIT_DEADLINE_S", "3");
  const std::vector<std::string> unknown = unknown_variables();
  EXPECT_EQ(std::count(unknown.begin(), unknown.end(), "SENNIT_DEADLINE"), 1);
  EXPECT_EQ(std::count(unknown.begin(), unknown.end(), "SENNIT_DEADLINE_S"), 0);
}

}  // namespace
}  // namespace sennit
