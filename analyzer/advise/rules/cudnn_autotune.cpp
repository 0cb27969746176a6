// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analyzer/advise/location.h"
#include "analyzer/advise/recurrence.h"
#include "analyzer/advise/remedy_words.h"

namespace gpuwatch::advise {

extern const Rule kCudnnAutotune;

namespace {

using model::Ns;

constexpr double kLeastShare = 0.05;
constexpr size_t kLeastAlgorithms = 3;

constexpr Threshold kThresholds[] = {
    {"time for trying convolution algorithms", kLeastShare, "of the step", "XProf's lower band"},
    {"different convolution kernels in a row, with a synchronization after each", double(kLeastAlgorithms),
     "in one search", "two may be the last layer of one step and the first of the next"},
    kGoesOn,
};

// Parts of the names of cuDNN's and CUTLASS's convolution kernels and of what prepares their data.
constexpr std::string_view kConvolutionNames[] = {"fprop",  "dgrad",  "wgrad",  "winograd", "convolve",
                                                  "conv2d", "conv3d", "im2col", "fft2d",    "cudnn"};
constexpr std::string_view kOtherCudnnNames[] = {"bn_", "batchnorm", "softmax",   "pooling",
                                                 "rnn", "lstm",      "attention", "sdpa"};

bool holds_any(std::string_view name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(
      parts, [name](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

std::vector<bool> convolution_kernels(const model::Run& run) {
  std::vector<bool> result;
  for (const model::Kernel& kernel : run.kernels)
    result.push_back(holds_any(kernel.name, kConvolutionNames) && !holds_any(kernel.name, kOtherCudnnNames));
  return result;
}

// One convolution, run by one algorithm after the other. PyTorch waits for each to take its time.
class Search {
 public:
  void add_kernel(std::string_view name, const model::DeviceOp& op) {
    if (kernels_ == 0) time_.begin = op.begin;  // not when it was launched: what ran before it is no search
    timed_ += has_waited_;
    has_waited_ = false;
    ++kernels_;
    time_.end = std::max(time_.end, op.end);
    if (std::ranges::find(names_, name) == names_.end() && names_.size() < kMostNames) names_.push_back(name);
  }
  void add_wait(const model::HostCall& call) {
    if (kernels_ == 0) return;
    has_waited_ = true;
    time_.end = std::max(time_.end, call.end);
  }
  bool is_one() const { return names_.size() >= kLeastAlgorithms && timed_ + 1 >= names_.size(); }
  model::TimeSpan time() const { return time_; }
  size_t algorithms() const { return names_.size(); }

 private:
  static constexpr size_t kMostNames = 64;  // cuDNN has fewer algorithms for one convolution
  model::TimeSpan time_;
  std::vector<std::string_view> names_;
  size_t kernels_ = 0, timed_ = 0;
  bool has_waited_ = false;
};

struct Searches {
  std::vector<model::TimeSpan> spans;
  size_t algorithms = 0;
  uint32_t thread = model::kNone, call = model::kNone;  // the first call of the longest
  Ns longest = 0;
};

Searches searches_of(const RuleInput& input) {
  const std::vector<bool> is_convolution = convolution_kernels(input.run);
  Searches found;
  Search search;
  uint32_t thread = model::kNone, first_call = model::kNone;
  const auto end_search = [&] {
    if (search.is_one()) {
      found.spans.push_back(search.time());
      found.algorithms += search.algorithms();
      if (search.time().length() > found.longest) {
        found.longest = search.time().length();
        found.thread = thread;
        found.call = first_call;
      }
    }
    search = {};
    thread = model::kNone;
  };
  for (const predict::HostEvent& event : input.streams->events) {
    const model::HostCall& call = input.process.threads[event.thread].calls[event.call];
    if (event.role == predict::HostRole::kSync) search.add_wait(call);
    for (uint32_t i = 0; i < event.op_count; ++i) {
      const auto& op = input.device->operations[input.streams->ops[event.first_op + i].device_op];
      if (op.kind != trace::RecordKind::Kernel || op.kernel >= is_convolution.size()) continue;
      if (!is_convolution[op.kernel] || (thread != model::kNone && thread != event.thread)) end_search();
      if (!is_convolution[op.kernel]) continue;
      if (thread == model::kNone) first_call = event.call;
      thread = event.thread;
      search.add_kernel(input.run.kernels[op.kernel].name, op);
    }
  }
  end_search();
  return found;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.streams || !input.device) return std::nullopt;
  const Searches found = searches_of(input);
  const Recurrence recurrence = recurrence_of(input, found.spans);
  if (!recurrence.goes_on() || recurrence.share < kLeastShare) return std::nullopt;

  Finding finding = make_finding(kCudnnAutotune, input, recurrence.share);
  finding.title = fmt::format(
      "cuDNN autotuning: convolution algorithms are tried again in {} of {} steps, {:.0f}% of each step",
      recurrence.steps, input.rank.steps.size(), 100 * recurrence.share);
  finding.evidence = {{"time for trying convolution algorithms", 100 * recurrence.share, "% of the step"},
                      {"searches", double(recurrence.spans), "in the recorded steps"},
                      {"algorithms tried in a search, mean",
                       double(found.algorithms) / double(std::max<size_t>(1, found.spans.size())), "kernels"},
                      {"longest search", double(found.longest) / 1e6, "ms"}};
  const bool is_torch = speaks_torch(input.process);
  finding.fix.change = NamedChange{is_torch ? "torch.backends.cudnn.benchmark" : "cudnn benchmark", "False"};
  finding.fix.summary =
      is_torch ? "Set torch.backends.cudnn.benchmark=False, or keep it and use inputs of a few fixed shapes"
               : "Choose convolution algorithms by heuristic, or use inputs of a few fixed shapes";
  if (is_torch) finding.fix.snippet = "torch.backends.cudnn.benchmark = False";
  finding.fix.location = call_location(input.run, input.process, found.thread, found.call);
  finding.ceiling_speedup = 1 / (1 - std::min(recurrence.share, 0.99));
  return finding;
}

}  // namespace

const Rule kCudnnAutotune{
    "cudnn-autotune",
    "cuDNN searches for the fastest convolution algorithm in step after step: benchmark mode remembers an "
    "answer for each shape, and the shapes keep changing.",
    "Several different convolution kernels in a row, nothing else between them, and the host waits for each "
    "to take its time; in several steps also of the second half of the run. A search at the first steps is "
    "how benchmark mode works. Whether a job without benchmark mode would gain from it cannot be seen.",
    "`torch.backends.cudnn.benchmark = False`, or inputs of a few fixed shapes (padding, cropping, "
    "`drop_last=True`). Upper bound: the algorithm chosen without a search may be slower.",
    kThresholds,
    evaluate,
    {attribute::Category::Compute, attribute::Category::Sync, attribute::Category::LaunchDispatch,
     attribute::Category::HostCompute}};

}  // namespace gpuwatch::advise
