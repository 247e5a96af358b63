// A rival of Sennit: a shared object that offers its calls as bench/rivals/rival.h says.
#pragma once

#include "calls.hpp"
#include "rival.h"
#include "work_order.hpp"

#include <cstddef>
#include <string>

namespace sennit::bench {

// Loaded and joined; left when the object goes. Exits with an error where something is missing.
class Rival {
 public:
  Rival(const Job& job, int rank, int ranks);
  Rival(const Rival&) = delete;
  Rival& operator=(const Rival&) = delete;
  ~Rival() { table_->stop(); }

  [[nodiscard]] const sennit_rival_t& table() const { return *table_; }
  [[nodiscard]] std::string version() const { return table_->version(); }

 private:
  const sennit_rival_t* table_ = nullptr;
};

class RivalCalls final : public Calls {
 public:
  RivalCalls(const WorkOrder& order, const Rival& rival, int rank, int ranks);

  void call(const Buffers& buffers, std::size_t count, int root) override;
  // Its messages may wait in this process for a call that sends them on.
  void settle() override;

 private:
  const WorkOrder& order_;
  const sennit_rival_t& rival_;
  int rank_;
  int ranks_;
};

}  // namespace sennit::bench
