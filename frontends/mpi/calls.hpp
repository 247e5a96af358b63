// The calls of calls.def on the library, for one ABI and one width of counts.
//
// A call is taken or passed on by what all its ranks share: communicator, operator, the type of a
// reduction, counts that MPI wants to be equal. Never by buffers, or by types that may differ. Only
// what one rank alone can see to be wrong goes to the MPI as well, which says so.
#pragma once

#include "buffers.hpp"
#include "front.hpp"
#include "narrowed.hpp"
#include "shadows.hpp"
#include "values.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sennit_mpi {

struct GatherPlan;
template <class Abi, class Start>
struct Reducing;
template <class Abi, class N, class D>
struct DeviceRoles;
template <class Abi, class N, class D>
struct PassedCalls;
template <class Abi, class N, class D>
struct NeighbourCalls;

constexpr const char* kRefused = "arguments that the MPI refuses";
constexpr const char* kSmallOverNodes =
    "less than 64 KiB between nodes, or a size that not all ranks know";
constexpr std::size_t kFewestBytesOverNodes = 64 << 10;  // the larger buffer of a rank
inline std::size_t not_known_to_all() { return 0; }

template <class Abi>
inline Front<Abi>* front_in_use = nullptr;

template <class Abi, class N, class D>
class Calls {
 public:
  using Comm = typename Abi::Comm;
  using Type = typename Abi::Type;
  using Op = typename Abi::Op;

  using Request = typename Abi::Request;
  using Info = typename Abi::Info;

  // Each collective, its nonblocking and its persistent form: what prepare_X() makes of it, where
  // that is something, else the MPI's.
#define SENNIT_MPI_COLLECTIVE(name, nonblocking, stem, parameters, arguments, entries)          \
  static int stem parameters {                                                                  \
    const CountedCall counted("MPI_" #name);                                                    \
    return front().guard(comm, [&] {                                                            \
      return run(                                                                               \
          Call::k##name,                                                                        \
          comm,                                                                                 \
          [&](Shadows<Abi>& shadows) { Roles::stem(shadows, SENNIT_MPI_LIST arguments); },      \
          [&](const Taken& taken) { return prepare_##stem(taken, SENNIT_MPI_LIST arguments); }, \
          [&] { return SENNIT_MPI_PASS_ON(stem, entries, SENNIT_MPI_LIST arguments); });        \
    });                                                                                         \
  }                                                                                             \
  static int i_##stem(SENNIT_MPI_LIST parameters, Request* request) {                           \
    const CountedCall counted("MPI_" #nonblocking);                                             \
    return front().guard(comm, [&] {                                                            \
      return begin(                                                                             \
          {"MPI_" #nonblocking,                                                                 \
           front().taking(comm, Call::k##nonblocking, false),                                   \
           comm,                                                                                \
           request,                                                                             \
           false},                                                                              \
          [&](Shadows<Abi>& shadows) { Roles::stem(shadows, SENNIT_MPI_LIST arguments); },      \
          [&](const Taken& taken) { return prepare_##stem(taken, SENNIT_MPI_LIST arguments); }, \
          [&](Taken& taken, auto& call, auto& shadows) {                                        \
            return std::optional(                                                               \
                front().begin(taken, std::move(call), request, std::move(shadows)));            \
          },                                                                                    \
          [&] {                                                                                 \
            return SENNIT_MPI_PASS_ON(i_##stem, entries, SENNIT_MPI_LIST arguments, request);   \
          });                                                                                   \
    });                                                                                         \
  }                                                                                             \
  static int init_##stem(SENNIT_MPI_LIST parameters, Info info, Request* request) {             \
    const CountedCall counted("MPI_" #name "_init");                                            \
    return front().guard(comm, [&] {                                                            \
      return begin(                                                                             \
          {"MPI_" #name "_init",                                                                \
           front().taking_persistent(comm, Call::k##name##_init),                               \
           comm,                                                                                \
           request,                                                                             \
           true},                                                                               \
          [&](Shadows<Abi>& shadows) { Roles::stem(shadows, SENNIT_MPI_LIST arguments); },      \
          [&](const Taken& taken) { return prepare_##stem(taken, SENNIT_MPI_LIST arguments); }, \
          [&](Taken& taken, auto& call, auto& shadows) {                                        \
            return front().make_persistent(taken, call, request, shadows);                      \
          },                                                                                    \
          [&] {                                                                                 \
            return SENNIT_MPI_PASS_ON(                                                          \
                init_##stem, entries, SENNIT_MPI_LIST arguments, info, request);                \
          });                                                                                   \
    });                                                                                         \
  }
#define SENNIT_MPI_PASS_ON(stem, entries, ...) \
  pass_on(                                     \
      same_width().stem,                       \
      front().functions.plain.stem,            \
      [&] { return ArrayLengths(entries); },   \
      front().errors_of(comm),                 \
      __VA_ARGS__)
#define SENNIT_MPI_OTHER(name, stem, parameters)
#include "calls.def"
#undef SENNIT_MPI_PASS_ON

 private:
  friend struct DeviceRoles<Abi, N, D>;
  friend struct PassedCalls<Abi, N, D>;
  friend struct NeighbourCalls<Abi, N, D>;

  static constexpr bool kIsPlain = std::is_same_v<N, int>;
  using Taken = Member<Abi>;
  using Roles = DeviceRoles<Abi, N, D>;

  // What a call becomes; nothing, and counted as passed on: it is for the MPI.
#define SENNIT_MPI_COLLECTIVE(name, nonblocking, stem, parameters, arguments, entries) \
  static auto prepare_##stem(const Taken& taken, SENNIT_MPI_LIST parameters);
#define SENNIT_MPI_OTHER(name, stem, parameters)
#include "calls.def"

  // A blocking call: `shadow` describes its buffers, `prepare` makes what runs on the library, and
  // `pass` lets the MPI run it.
  template <class Shadow, class Prepare, class Pass>
  static int run(Call name, Comm comm, Shadow&& shadow, Prepare&& prepare, Pass&& pass);
  template <class Shadow, class Prepare, class Pass>
  static int run_anywhere(
      Taken* taken, bool is_asked, Shadow&& shadow, Prepare&& prepare, Pass&& pass);
  struct Begun {
    const char* name;
    Taken* taken;  // null: by the MPI
    Comm comm;
    Request* request;
    bool is_persistent;
  };
  // One that goes on after it has returned, by `start`, which may find that it cannot.
  template <class Shadow, class Prepare, class Start, class Pass>
  static int begin(Begun begun, Shadow&& shadow, Prepare&& prepare, Start&& start, Pass&& pass);
  template <class Prepare, class Pass>
  static int run_on_host(Taken* taken, Prepare&& prepare, Pass&& pass);
  template <class Prepare, class Start>
  static std::optional<int> begin_on_host(Taken* taken,
                                          Prepare&& prepare,
                                          Start&& start,
                                          std::optional<Shadows<Abi>>& shadows);
  // Nothing: the program has no GPU memory.
  static std::optional<Shadows<Abi>> shadows_of_process() {
    auto* const running = Cuda::may_be_there() ? front().running() : nullptr;
    const Cuda* const cuda = running != nullptr ? Cuda::find() : nullptr;
    return cuda != nullptr
               ? std::optional<Shadows<Abi>>(
                     std::in_place, *cuda, running->type_rows, running->datatypes, packer())
               : std::nullopt;
  }

  static Front<Abi>& front() { return *front_in_use<Abi>; }
  static const typename Functions<Abi>::template Counted<N, D>& same_width() {
    if constexpr (kIsPlain) {
      return front().functions.plain;
    } else {
      return front().functions.large;
    }
  }

  // The MPI's own call. `entries` gives the length of the arrays of counts, if it has to be known.
  template <class Same, class Plain, class Entries, class Raise, class... Arguments>
  static int pass_on(
      Same same, Plain plain, Entries entries, const Raise& raise_it, Arguments... arguments) {
    if (same != nullptr) {
      return same(arguments...);
    }
    if (plain == nullptr) {
      return raise_it(Abi::kErrOther);
    }
    auto narrowed = std::make_unique<Narrowed>(entries());
    // Braces: from left to right.
    const std::tuple narrow{(*narrowed)(arguments)...};
    if (!narrowed->fits()) {
      return raise_it(Abi::kErrCount);
    }
    const int code = std::apply(plain, narrow);
    narrowed->widen_result();
    using Last = std::tuple_element_t<sizeof...(Arguments) - 1, std::tuple<Arguments...>>;
    if constexpr (std::is_same_v<Last, Request*>) {
      // The MPI reads the arrays until the call has ended, and nobody says when.
      front().keep(std::move(narrowed));
    }
    return code;
  }

  static std::size_t entry_a_member(Comm comm) {
    int size = 0;
    front().functions.mpi.comm_size(comm, &size);
    return static_cast<std::size_t>(size);
  }
  static std::size_t entry_a_peer(Comm comm) {
    int is_inter = 0;
    int size = 0;
    front().functions.mpi.comm_test_inter(comm, &is_inter);
    if (is_inter == 0) {
      return entry_a_member(comm);
    }
    front().functions.mpi.comm_remote_size(comm, &size);
    return static_cast<std::size_t>(size);
  }
  // Elsewhere than at the root the arrays mean nothing, and may lead nowhere.
  static std::size_t entry_a_peer_at(int root, Comm comm) {
    int rank = -1;
    front().functions.mpi.comm_rank(comm, &rank);
    return root == rank || root == Abi::kRoot ? entry_a_peer(comm) : 0;
  }

  static bool is_in_place(const void* buffer) { return buffer == Abi::in_place(); }
  static bool is_rank(int root, const Taken& taken) { return root >= 0 && root < taken.size; }
  // What `make` makes, where the call is taken; else nothing, and it is counted as passed on. Over
  // several nodes the MPI is faster with little; `known_bytes` are what all ranks know of the call.
  template <class Bytes, class Make>
  static auto when(const Taken& taken, bool is_right, Bytes&& known_bytes, Make&& make)
      -> std::optional<decltype(make())> {
    if (is_right && (taken.nodes == 1 || known_bytes() >= kFewestBytesOverNodes)) {
      // Made where it is returned, without a move.
      struct Made {
        Make& make;
        operator decltype(make())() const { return make(); }  // NOLINT(google-explicit-constructor)
      };
      return std::optional<decltype(make())>(std::in_place, Made{make});
    }
    front().share.pass(is_right ? kSmallOverNodes : kRefused);
    return std::nullopt;
  }
  static std::size_t all_blocks(const Taken& taken, const Elements<Abi>& block) {
    return static_cast<std::size_t>(taken.size) * block.bytes();
  }
  template <class Call>
  static bool may_return_before_its_end(const Call& call) {
    const bool may = call.may_return_before_its_end();
    if (!may) {
      front().share.pass("a nonblocking call with an operator of the program");
    }
    return may;
  }
  static const Packer<Abi>& packer() { return front().running()->packer; }
  static const Datatypes<Abi>& datatypes() { return front().running()->datatypes; }

  // What the MPI would refuse is left to the MPI, which raises its own error. MPICH takes no type
  // at all where the count is 0, so such a block is taken here: the other ranks cannot know of it.
  static bool is_valid(const void* buffer, std::int64_t count, Type type) {
    const bool is_type = type != Type{} && type != front().abi.type_null();
    return count >= 0 && (count == 0 || is_type) && !is_in_place(buffer);
  }
  // A buffer may be MPI_BOTTOM, and only the displacement make it an address.
  static const void* moved(const void* buffer, std::int64_t bytes) {
    return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(buffer) +
                                         static_cast<std::uintptr_t>(bytes));
  }
  // Inline: it is on the way of the smallest calls.
  [[gnu::always_inline]] static Elements<Abi> elements(const void* buffer,
                                                       std::int64_t count,
                                                       Type type) {
    const Layout layout = count == 0 ? Layout{.is_dense = true} : datatypes().layout_of(type);
    return {buffer, static_cast<std::size_t>(count), type, layout};
  }
  // What all ranks see that a block is; MPI says nothing of the type of one that is empty.
  static Values values_of(const Elements<Abi>& block) {
    const bool is_asked = front().settings.has_codecs && block.bytes() > 0;
    return is_asked ? datatypes().values_of(block.type) : Values{};
  }
  static Elements<Abi> in_bytes(const void* place, std::size_t bytes) {
    return {place, bytes, front().abi.byte(), {.bytes = 1, .extent = 1, .is_dense = true}};
  }
  // The same, so many elements of the type further on.
  static Elements<Abi> elements_at(const void* buffer,
                                   std::int64_t offset,
                                   std::int64_t count,
                                   Type type) {
    Elements<Abi> all = elements(buffer, count, type);
    all.place = moved(buffer, offset * all.layout.extent);
    return all;
  }
  // A block a rank, its displacement in elements of the type.
  static bool are_valid(
      const void* buffer, const N* counts, const D* displacements, Type type, const Taken& taken) {
    if (counts == nullptr || displacements == nullptr) {
      return false;
    }
    const auto [least, most] = std::minmax_element(counts, counts + taken.size);
    return *least >= 0 && is_valid(buffer, *most, type);
  }
  static void add_blocks(Blocks<Abi>& blocks,
                         const void* buffer,
                         const N* counts,
                         const D* displacements,
                         Type type,
                         const Taken& taken) {
    for (int rank = 0; rank < taken.size; ++rank) {
      blocks.add(elements_at(buffer, displacements[rank], counts[rank], type));
    }
  }
  // The same with a type a rank; displacements are in bytes.
  static void add_blocks(Blocks<Abi>& blocks,
                         const void* buffer,
                         const N* counts,
                         const D* displacements,
                         const Type* types,
                         const Taken& taken) {
    for (int rank = 0; rank < taken.size; ++rank) {
      blocks.add(elements(moved(buffer, displacements[rank]), counts[rank], types[rank]));
    }
  }
  static bool are_valid(const void* buffer,
                        const N* counts,
                        const D* displacements,
                        const Type* types,
                        const Taken& taken) {
    if (counts == nullptr || displacements == nullptr || types == nullptr) {
      return false;
    }
    for (int rank = 0; rank < taken.size; ++rank) {
      if (!is_valid(buffer, counts[rank], types[rank])) {
        return false;
      }
    }
    return true;
  }

  static Exchange ask_others(const Taken& taken,
                             const Blocks<Abi>& input,
                             const Blocks<Abi>& output);
  template <class Types>
  static auto prepare_exchange(const Taken& taken,
                               const void* send,
                               const N* send_counts,
                               const D* send_displacements,
                               Types send_types,
                               void* recv,
                               const N* recv_counts,
                               const D* recv_displacements,
                               Types recv_types);
  struct ReductionArguments {
    const void* send;
    void* recv;
    std::int64_t contributed;  // elements of this rank
    std::int64_t received;     // at this rank
    Type type;
    Op op;
    bool is_valid;
    bool is_uniform = true;  // all ranks receive as many
  };
  template <class Start>
  static auto prepare_reduction(const Taken& taken,
                                const ReductionArguments& call,
                                const GatherPlan& plan,
                                Start start) -> std::optional<Reducing<Abi, Start>>;
  static auto prepare_scattered(const Taken& taken,
                                const void* send,
                                void* recv,
                                const std::array<std::size_t, kMostRanks>& blocks,
                                bool is_valid,
                                Type type,
                                Op op);
};

// In the entry of each call: it is on the way of the smallest.
template <class Abi, class N, class D>
template <class Prepare, class Pass>
[[gnu::always_inline]] inline int Calls<Abi, N, D>::run_on_host(Taken* taken,
                                                                Prepare&& prepare,
                                                                Pass&& pass) {
  if (taken != nullptr) {
    if (auto call = prepare(*taken)) {
      return front().run(*taken, *call);
    }
  }
  return pass();
}

template <class Abi, class N, class D>
template <class Shadow, class Prepare, class Pass>
int Calls<Abi, N, D>::run(Call name, Comm comm, Shadow&& shadow, Prepare&& prepare, Pass&& pass) {
  Taken* const taken = front().taking(comm, name, true);
  // Over nodes to ask takes longer than a small call of the MPI.
  const bool is_asked =
      name != Call::kBarrier && taken != nullptr && taken->nodes == 1 && taken->gpus.is_asked();
  if (name == Call::kBarrier || (!is_asked && !Cuda::may_be_there())) [[likely]] {
    return run_on_host(taken, prepare, pass);
  }
  return run_anywhere(taken, is_asked, shadow, prepare, pass);
}

template <class Abi, class N, class D>
template <class Shadow, class Prepare, class Pass>
[[gnu::noinline]] int Calls<Abi, N, D>::run_anywhere(
    Taken* taken, bool is_asked, Shadow&& shadow, Prepare&& prepare, Pass&& pass) {
  std::optional<Shadows<Abi>> shadows = shadows_of_process();
  if (shadows) {
    shadow(*shadows);
  }
  if (is_asked && front().can_run_on_gpus(*taken, shadows ? shadows->gpu() : -1)) {
    if (auto call = prepare(*taken)) {
      return front().run_on_gpus(*Cuda::find(), *taken, *call);
    }
  }
  const bool are_needed = shadows && shadows->are_needed();
  if (are_needed) {
    front().share.copy();
    shadows->copy_in();
  }
  const int code = run_on_host(taken, prepare, pass);
  if (are_needed && code == 0) {
    shadows->copy_out();
  }
  return code;
}

template <class Abi, class N, class D>
template <class Prepare, class Start>
std::optional<int> Calls<Abi, N, D>::begin_on_host(Taken* taken,
                                                   Prepare&& prepare,
                                                   Start&& start,
                                                   std::optional<Shadows<Abi>>& shadows) {
  if (taken != nullptr) {
    auto call = prepare(*taken);
    if (call && may_return_before_its_end(*call)) {
      return start(*taken, *call, shadows);
    }
  }
  return std::nullopt;
}

template <class Abi, class N, class D>
template <class Shadow, class Prepare, class Start, class Pass>
int Calls<Abi, N, D>::begin(
    Begun begun, Shadow&& shadow, Prepare&& prepare, Start&& start, Pass&& pass) {
  std::optional<Shadows<Abi>> shadows = shadows_of_process();
  if (shadows) {
    shadow(*shadows);
    if (shadows->are_needed()) {
      front().share.copy();
      shadows->copy_in();
    } else {
      shadows.reset();
    }
  }
  const std::optional<int> code = begin_on_host(begun.taken, prepare, start, shadows);
  if (code || !shadows) {
    return code ? *code : pass();
  }
  if (!front().running()->requests.can_run()) {
    return front().refuse_device_memory(
        front().errors_of(begun.comm), begun.name, "use its blocking form, or host memory");
  }
  const int passed = pass();
  return passed == 0 ? front().follow(front().errors_of(begun.comm),
                                      std::move(*shadows),
                                      {.is_persistent = begun.is_persistent},
                                      begun.request)
                     : passed;
}

}  // namespace sennit_mpi
