#include "work_order.hpp"

#include "elements.hpp"

#include "sennit/tools.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace sennit::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWrongData = 1;
constexpr int kBadUsage = 2;
constexpr int kRankFailed = 3;

struct KindRow {
  const char* name;
  Kind kind;
};
constexpr std::array kKinds = {KindRow{"all_reduce", Kind::kAllReduce},
                               KindRow{"reduce", Kind::kReduce},
                               KindRow{"broadcast", Kind::kBroadcast},
                               KindRow{"all_gather", Kind::kAllGather},
                               KindRow{"reduce_scatter", Kind::kReduceScatter},
                               KindRow{"all_to_all", Kind::kAllToAll},
                               KindRow{"gather", Kind::kGather},
                               KindRow{"scatter", Kind::kScatter},
                               KindRow{"barrier", Kind::kBarrier},
                               KindRow{"send_recv", Kind::kSendRecv}};

struct OpRow {
  const char* name;
  sennit_redop_t op;
};
constexpr std::array kOps = {OpRow{"sum", SENNIT_SUM},
                             OpRow{"prod", SENNIT_PROD},
                             OpRow{"min", SENNIT_MIN},
                             OpRow{"max", SENNIT_MAX},
                             OpRow{"avg", SENNIT_AVG},
                             OpRow{"logical_and", SENNIT_LOGICAL_AND},
                             OpRow{"logical_or", SENNIT_LOGICAL_OR},
                             OpRow{"logical_xor", SENNIT_LOGICAL_XOR},
                             OpRow{"bitwise_and", SENNIT_BITWISE_AND},
                             OpRow{"bitwise_or", SENNIT_BITWISE_OR},
                             OpRow{"bitwise_xor", SENNIT_BITWISE_XOR}};

template <typename Rows>
const auto& row_named(const Rows& rows, const char* what, const std::string& name) {
  for (const auto& row : rows) {
    if (name == row.name) {
      return row;
    }
  }
  exit_with_error(kBadUsage, std::string("there is no ") + what + " '" + name + "'");
}

// Takes the keys out of an object one by one, and refuses what is left over.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  template <typename T>
  void read(const char* key, T& value) {
    seen_.insert(key);
    const auto at = object_.find(key);
    if (at != object_.end() && !at->is_null()) {
      value = at->get<T>();
    }
  }

  const Json* raw(const char* key) {
    seen_.insert(key);
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }

  void refuse_the_rest() const {
    for (const auto& [key, value] : object_.items()) {
      if (!seen_.contains(key)) {
        exit_with_error(kBadUsage, "the work order has an unknown key '" + key + "'");
      }
    }
  }

 private:
  const Json& object_;
  std::set<std::string> seen_;
};

void read_root(Reader& reader, WorkOrder& order) {
  if (const Json* root = reader.raw("root")) {
    if (root->is_string() && *root == "rotate") {
      order.root = -1;
    } else {
      order.root = root->get<int>();
    }
  }
}

// What a call names the schedule by.
std::string name_of_schedule(const std::string& text) {
  char* answer = nullptr;
  check(sennit_tool_schedule(Json{{"schedule_text", text}}.dump().c_str(), &answer));
  std::string name = Json::parse(answer).at("algorithm").get<std::string>();
  sennit_tool_free(answer);
  return name;
}

WorkOrder parse_order(const Json& object) {
  WorkOrder order;
  Reader reader(object);
  reader.read("collective", order.collective);
  order.kind = row_named(kKinds, "collective", order.collective).kind;
  reader.read("algorithm", order.algorithm);
  if (const Json* schedule = reader.raw("schedule")) {
    order.algorithm = name_of_schedule(schedule->get<std::string>());
  }
  reader.read("path", order.path);
  reader.read("protocol", order.protocol);
  reader.read("tile_bytes", order.tile_bytes);
  reader.read("codec", order.codec);
  reader.read("dtype", order.dtype_name);
  const ElementType* dtype = find_element_type(order.dtype_name);
  if (dtype == nullptr) {
    exit_with_error(
        kBadUsage,
        "there is no dtype '" + order.dtype_name + "'; there are: " + element_type_names());
  }
  order.dtype = dtype->dtype;
  order.element_bytes = dtype->bytes;
  reader.read("op", order.op_name);
  order.op = row_named(kOps, "reduce operator", order.op_name).op;
  read_root(reader, order);
  reader.read("in_place", order.in_place);
  reader.read("sizes", order.sizes);
  reader.read("iterations", order.iterations);
  reader.read("warmup", order.warmup);
  reader.read("check", order.check);
  reader.read("seed", order.seed);
  reader.read("max_seconds", order.max_seconds);
  reader.read("pin", order.pin);
  if (const Json* pair = reader.raw("pair")) {
    order.pair = {pair->at(0).get<int>(), pair->at(1).get<int>()};
  }
  reader.read("bidirectional", order.bidirectional);
  reader.read("window", order.window);
  reader.read("cycles", order.cycles);
  reader.read("prune", order.prune);
  if (const Json* tries = reader.raw("tries")) {
    for (const Json& one : *tries) {
      order.tries.push_back({.algorithm = one.at("algorithm").get<std::string>(),
                             .protocol = one.at("protocol").get<std::string>(),
                             .tile_bytes = one.at("tile_bytes").get<std::int64_t>()});
    }
  }
  reader.read("rotate_bytes", order.rotate_bytes);
  reader.read("warm_bytes", order.warm_bytes);
  reader.read("slow_seconds", order.slow_seconds);
  reader.refuse_the_rest();
  if (order.iterations < 1 || order.warmup < 0 || order.window < 1 || order.cycles < 1) {
    exit_with_error(kBadUsage, "iterations, window and cycles are at least 1, warmup at least 0");
  }
  return order;
}

Job parse_job(const Json& object) {
  Job job;
  Reader reader(object);
  if (const Json* orders = reader.raw("orders")) {
    for (const Json& order : *orders) {
      job.orders.push_back(parse_order(order));
    }
  }
  reader.read("rival", job.rival);
  reader.read("max_seconds", job.max_seconds);
  reader.refuse_the_rest();
  return job;
}

int exit_code_of(sennit_status_t status) {
  switch (status) {
    case SENNIT_INVALID_ARGUMENT:
    case SENNIT_INVALID_USAGE:
    case SENNIT_UNSUPPORTED:
      return kBadUsage;
    case SENNIT_NOT_PROVED:
      return kWrongData;
    default:
      return kRankFailed;
  }
}

[[noreturn]] void print_and_exit(int code, const Json& fields) {
  // Names of hosts and files may be no UTF-8.
  const std::string text =
      Json{{"error", fields}}.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  std::fprintf(stderr, "%s\n", text.c_str());
  // Not exit(): another rank may just be killing us, and nothing here needs an orderly end.
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

Job read_job(const std::string& file) {
  std::ifstream stream(file);
  try {
    Job job = parse_job(Json::parse(stream));
    job.rendezvous = std::filesystem::path(file).replace_filename("rendezvous").string();
    return job;
  } catch (const Json::exception& e) {
    exit_with_error(kBadUsage, "the job in " + file + " is not as it should be: " + e.what());
  }
}

void exit_with_error(int code, const std::string& message) {
  print_and_exit(code, {{"message", message}});
}

void exit_with_last_error() {
  sennit_error_t error = SENNIT_ERROR_INITIALIZER;
  sennit_last_error(&error);
  print_and_exit(exit_code_of(error.status),
                 {{"code", sennit_status_name(error.status)},
                  {"message", error.message},
                  {"comm", error.comm},
                  {"op", error.op},
                  {"sequence", error.sequence},
                  {"count", error.count},
                  {"dtype", error.dtype},
                  {"reduce_op", error.reduce_op},
                  {"root", error.root},
                  {"rank", error.rank},
                  {"size", error.size},
                  {"blamed_ranks",
                   std::vector<int>(error.blamed_ranks, error.blamed_ranks + error.blamed_count)},
                  {"evidence", error.evidence},
                  {"elapsed_s", error.elapsed_s},
                  {"next", error.next}});
}

}  // namespace sennit::bench
