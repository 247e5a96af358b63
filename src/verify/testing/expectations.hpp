// For tests: plans, and what is expected of their proof.
#pragma once

#include "algo/algorithm.hpp"
#include "verify/checks.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sennit::verify_test {

inline Plan plan_of(Schedule schedule, Protocol protocol = Protocol::kSlots, int slots = 2) {
  Plan plan;
  plan.strands.push_back(bind(std::make_shared<const Schedule>(std::move(schedule)),
                              PathKind::kShm,
                              protocol,
                              slots,
                              Engine::kCpu));
  return plan;
}

inline Plan named_plan(Collective collective,
                       std::string_view algorithm,
                       int ranks,
                       Protocol protocol) {
  Shape shape;
  shape.ranks = ranks;
  return plan_of(*make_schedule(**find_algorithm(collective, algorithm), shape), protocol);
}

inline void expect_proved(const Plan& plan) {
  const Result<Proof> proof = verify(plan);
  EXPECT_TRUE(proof.ok()) << proof.status().message();
}

inline void expect_refused(const Plan& plan, const std::string& why) {
  const Result<Proof> proof = verify(plan);
  ASSERT_FALSE(proof.ok());
  EXPECT_EQ(proof.status().code(), Code::kNotProved);
  EXPECT_NE(proof.status().message().find(why), std::string::npos) << proof.status().message();
}

// `plan` is wrong in one way, which one check and no other sees.
inline void expect_caught_only_by(bool Checks::* check, const Plan& plan, const std::string& why) {
  expect_refused(plan, why);
  Checks checks;
  checks.*check = false;
  const Result<Proof> proof = verify_with(plan, checks);
  EXPECT_TRUE(proof.ok()) << "another check found: " << proof.status().message();
}

}  // namespace sennit::verify_test
