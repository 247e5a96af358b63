// The Dynamic rule of Faraji and Afsahi (ESPM2 2015): who gathers decides, copy by copy, which of
// two types each copy takes, by nothing but which copies have completed so far.
//
//  - The first arrival gets type 0, the second type 1: that is how both are assessed.
//  - When a copy of type x completes and d more of x than of the other type have completed, the
//    next 2^d arrivals get x; one if d is not positive.
//  - The last copy pending, if none of its type has ever completed, is sent again by the other
//  type.
//    Whichever comes first counts; the late one must still complete before the call may end.
//
// A state machine without clock or threads: arrivals and completions in, issues out. The paper
// sends the last copy again even when the other type has completed nothing either, as with a single
// copy; here it is not, because then nothing says that the other type is any faster.
//
//   DynamicPolicy policy(copies);
//   policy.arrive(member);  policy.complete(member, type);
//   while (const auto issue = policy.next()) { ... notify issue->member ... }
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

namespace sennit {

class DynamicPolicy {
 public:
  // `copies` in all, of members that have one copy pending at a time.
  explicit DynamicPolicy(std::int64_t copies) : unissued_(copies) {}

  struct Issue {
    int member = 0;
    int type = 0;
    bool again = false;

    bool operator==(const Issue&) const = default;
  };

  // A member has a copy to make.
  void arrive(int member) { arrivals_.push_back(member); }
  // The copy of `member` by `type` is complete: the only one, or one of two.
  void complete(int member, int type);
  // What to issue now; ask until there is nothing more.
  std::optional<Issue> next();

  // Copies of a type that have completed so far.
  [[nodiscard]] std::int64_t completed(int type) const {
    return completed_[static_cast<std::size_t>(type)];
  }
  // For what the leader sends itself afterwards: the type to use when `load` copies of each are
  // under way. A type that has never completed while the other has is avoided.
  [[nodiscard]] int type_for_scatter(const std::array<std::int64_t, 2>& load) const;
  // Nothing is pending and nothing will come.
  [[nodiscard]] bool finished() const { return unissued_ == 0 && pending_.empty(); }

 private:
  struct Grant {
    int type = 0;
    std::int64_t copies = 0;
  };
  struct Pending {
    std::array<bool, 2> under_way{};
    bool complete = false;  // one of two; the late one is under way
  };

  std::optional<Issue> next_again();

  std::int64_t unissued_;
  std::deque<int> arrivals_;
  std::deque<Grant> grants_{{.type = 0, .copies = 1}, {.type = 1, .copies = 1}};
  std::map<int, Pending> pending_;
  std::array<std::int64_t, 2> completed_{};
};

}  // namespace sennit
