// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/other_threads.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/place_words.h"
#include "analyzer/advise/steady_time.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/other_threads.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;

// Waiting for a core is theirs at most as long as they were seen: others may use the cores, too.
struct Waits {
  double gil, core;
};

Waits waits_for(const RuleInput& input, const model::OtherThreadWork& work) {
  return {input.rank.share(Category::Gil), std::min(input.rank.share(Category::Sched), work.share.share)};
}

std::string waiting_words(const Waits& waits) {
  constexpr double kWorthSaying = 0.01;
  if (waits.core < kWorthSaying) return fmt::format("{:.0f}% for the GIL", 100 * waits.gil);
  if (waits.gil < kWorthSaying) return fmt::format("{:.0f}% for a CPU core", 100 * waits.core);
  return fmt::format("{:.0f}% for the GIL and {:.0f}% for a CPU core", 100 * waits.gil, 100 * waits.core);
}

std::string function_of(const model::OtherThreadWork& work) {
  return io::printable(work.line.function) + "()";
}

std::string thread_words(const model::OtherThreadWork& work) {
  return work.package.empty() ? "Another thread of the script" : "A thread of " + io::printable(work.package);
}

std::string fix_words(const model::OtherThreadWork& work, bool has_loader) {
  if (!work.package.empty())
    return fmt::format("Call {} less often, or with less: its own thread and training share the GIL",
                       io::printable(work.package));
  return fmt::format("Do less in {}, or run it in another process{}: threads share the GIL",
                     function_of(work),
                     has_loader ? "" : " (if it makes data, a DataLoader with num_workers >= 1)");
}

}  // namespace

std::optional<Finding> other_threads_finding(const Rule& rule, const RuleInput& input) {
  const auto work = model::other_thread_work(input.run, input.process, steady_time(input));
  if (!work || work->share.low < kLeastOtherThreads) return std::nullopt;
  const Waits waits = waits_for(input, *work);
  const double lost = waits.gil + waits.core;
  if (lost < kLeastOtherThreads) return std::nullopt;
  Finding finding = make_finding(rule, input, lost);
  finding.bottleneck = attribute::Bottleneck::Host;
  finding.explains = {Category::Gil, Category::Sched};
  finding.title = fmt::format("{} computes next to training, which waits {}: it runs {} most",
                              thread_words(*work), waiting_words(waits), function_of(*work));
  finding.evidence = {
      {"another thread has the GIL", 100 * work->share.share, "% of the time"},
      {fmt::format("of that in {}", place_words(work->line)), 100 * work->of_threads, "%"},
      {"training thread waits for the GIL", 100 * input.rank.share(Category::Gil), "% of the step"},
      {"training thread waits for a CPU core", 100 * input.rank.share(Category::Sched), "% of the step"},
      {"available", double(input.process.cpu_count), "CPU cores"}};
  finding.fix.change = NamedChange{"threads", "another process"};
  finding.fix.summary = fix_words(*work, input.configured_loader() != nullptr);
  finding.fix.location = (work->called_at ? *work->called_at : work->line).location();
  finding.ceiling_speedup = ceiling_without_input(input, lost);
  return finding;
}

}  // namespace gpuwatch::advise
