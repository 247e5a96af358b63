#include "exec/executables.hpp"

#include "exec/sm/direct_executable.hpp"
#include "exec/sm/interpreter_executable.hpp"
#include "exec/sm/one_sided_executable.hpp"
#include "exec/sm/reading_executable.hpp"
#include "exec/stream/copy_executable.hpp"
#include "select/device_paths.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace sennit {
namespace {

bool is_for_copy_engines(const DeviceChoice& choice) {
  return choice.engine == Engine::kStream || choice.host_share > 0;
}

// The engines; the first that runs a plan compiles it.
struct EngineRow {
  bool (*runs)(const PlanKey& key);
  Result<std::unique_ptr<Executable>> (*compile)(ProvedPlan proved,
                                                 const PlanKey& key,
                                                 GpuContext& context);
};
constexpr std::array kEngineRows = {
    EngineRow{[](const PlanKey& key) { return key.choice.by_steps; },
              [](ProvedPlan proved, const PlanKey& key, GpuContext& context) {
                return sm::InterpreterExecutable::compile(
                    std::move(proved), key, context.kernels());
              }},
    EngineRow{[](const PlanKey& key) { return key.by_copy_engines; },
              [](ProvedPlan proved, const PlanKey& key, GpuContext& context) {
                return stream::CopyExecutable::compile(
                    std::move(proved), key, context.copy_engines());
              }},
    EngineRow{[](const PlanKey& key) { return key.choice.protocol == Protocol::kDirectPut; },
              [](ProvedPlan proved, const PlanKey& key, GpuContext& context) {
                return sm::OneSidedExecutable::compile(
                    std::move(proved), key, context.kernels(), context.launcher());
              }},
    EngineRow{[](const PlanKey& key) { return key.choice.protocol == Protocol::kDirectGet; },
              [](ProvedPlan proved, const PlanKey& key, GpuContext& context) {
                return sm::ReadingExecutable::compile(std::move(proved), key, context.kernels());
              }},
    EngineRow{[](const PlanKey& /*key*/) { return true; },
              [](ProvedPlan proved, const PlanKey& key, GpuContext& context) {
                return sm::DirectExecutable::compile(std::move(proved), key, context.kernels());
              }},
};

int root_of(const Operation& operation) {
  return is_rooted(operation.collective) ? operation.root : 0;
}

// A send_recv has a sender, 0, and a receiver.
int place_of(const Operation& operation, int rank) {
  const bool is_message = operation.collective == Collective::kSendRecv;
  return is_message ? (operation.is_send ? 0 : 1) : rank;
}

}  // namespace

Shape shape_of(const Operation& operation, int ranks, const std::vector<std::vector<int>>& groups) {
  if (operation.collective == Collective::kSendRecv) {
    return {.ranks = 2};
  }
  return {
      .ranks = ranks, .root = root_of(operation), .groups = groups, .varying = operation.varying};
}

PlanKey Executables::key_of(const Operation& operation, const DeviceChoice& choice) const {
  return {operation.collective,
          root_of(operation),
          place_of(operation, rank_),
          operation.varying,
          is_for_copy_engines(choice),
          operation.collective == Collective::kSendRecv &&
              direct_path(context_.facts(), rank_, operation.peer) == PathKind::kDevice,
          choice};
}

Result<Executable*> Executables::find(const Operation& operation, const DeviceChoice& choice) {
  return find(key_of(operation, choice), operation);
}

Result<Executables::Copies> Executables::find_copies(const Operation& operation,
                                                     const DeviceChoice& choice) {
  PlanKey key = key_of(operation, choice);
  key.by_copy_engines = true;
  SENNIT_ASSIGN_OR_RETURN(const Executable* const found, find(key, operation));
  const auto& copies = static_cast<const stream::CopyExecutable&>(*found);
  return Copies{.program = &copies.program(), .hash = copies.hash()};
}

Result<const ProvedPlan*> Executables::find_proof(const Operation& operation,
                                                  const DeviceChoice& choice) {
  const PlanKey key = key_of(operation, choice);
  if (const auto known = proofs_.find(key); known != proofs_.end()) {
    return &known->second;
  }
  SENNIT_ASSIGN_OR_RETURN(ProvedPlan proved, prove(key, operation));
  return &proofs_.emplace(key, std::move(proved)).first->second;
}

Result<ProvedPlan> Executables::prove(const PlanKey& key, const Operation& operation) const {
  const DeviceFacts& all = context_.facts();
  const DeviceFacts facts = operation.collective == Collective::kSendRecv
                                ? facts_of_message(all, rank_, operation.peer)
                                : all;
  SENNIT_ASSIGN_OR_RETURN(
      std::shared_ptr<const Plan> plan,
      make_device_plan(key.choice, shape_of(operation, ranks_, groups_of(all)), facts));
  SENNIT_ASSIGN_OR_RETURN(ProvedPlan proved, prove_once(std::move(plan)));
  if (has_codec(*proved.plan)) {
    return fail(Code::kUnsupported, "the plan has a codec, which no engine of GPUs runs yet");
  }
  return proved;
}

Result<Executable*> Executables::find(const PlanKey& key, const Operation& operation) {
  if (const auto known = known_.find(key); known != known_.end()) {
    return known->second.get();
  }
  SENNIT_ASSIGN_OR_RETURN(ProvedPlan proved, prove(key, operation));
  const auto* const engine =
      std::ranges::find_if(kEngineRows, [&](const EngineRow& row) { return row.runs(key); });
  SENNIT_ASSIGN_OR_RETURN(auto made, engine->compile(std::move(proved), key, context_));
  return known_.emplace(key, std::move(made)).first->second.get();
}

}  // namespace sennit
