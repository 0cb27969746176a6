// SPDX-License-Identifier: Apache-2.0
// Small runs for tests, written as a program would have made them. Times in ns (us() for readability).
#pragma once

#include <string>

#include "analyzer/attribute/attribution.h"
#include "analyzer/attribute/rank_rows.h"
#include "analyzer/model/run.h"

namespace gpuwatch::test {

constexpr model::Ns us(double microseconds) {
  return static_cast<model::Ns>(microseconds * 1000);
}
constexpr model::Ns ms(double milliseconds) {
  return static_cast<model::Ns>(milliseconds * 1e6);
}

struct CopyShape {
  trace::RecordKind kind = trace::RecordKind::CopyH2D;
  uint64_t bytes = 1 << 20;
  bool pageable = false;
  uint32_t stream = 1;
};

// One process with one device. Calls may be added in any order; finish() sorts and matches them.
class RunBuilder {
 public:
  RunBuilder();

  uint32_t thread(const std::string& name);
  void call(uint32_t thread, trace::OpClass op_class, model::Ns begin, model::Ns end,
            const std::string& name = "", uint32_t object = 0, uint32_t argument = 0, uint8_t flags = 0);
  void cuda(uint32_t thread, trace::OpClass op_class, model::Ns begin, model::Ns end,
            const CopyShape& shape = {}, const std::string& name = "");
  void cpu(uint32_t thread, trace::OpClass op_class, model::Ns begin, model::Ns end, model::Ns run_delay_ns);
  // A launch call and the kernel that it starts.
  void kernel(uint32_t thread, model::TimeSpan launch, model::TimeSpan device, uint16_t stream = 0,
              bool is_communication = false);
  void copy(uint32_t thread, model::TimeSpan call, model::TimeSpan device, const CopyShape& shape,
            uint16_t stream = 0);
  void device_op(trace::RecordKind kind, model::TimeSpan time, uint16_t stream,
                 bool is_communication = false);

  // Attribution with steps that end at the given times; the first begins at `begin`.
  attribute::RankAttribution attribute(model::Ns begin, const std::vector<model::Ns>& ends);

  model::Run run;
  model::Process& process() { return run.processes[0]; }

 private:
  struct Pending;
  uint16_t operation(const std::string& name, trace::OpClass op_class);
  void finish();
  uint32_t next_correlation_ = 1;
};

}  // namespace gpuwatch::test
