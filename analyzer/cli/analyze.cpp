// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/analyze.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "analyzer/advise/diagnose.h"
#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"
#include "analyzer/model/build.h"
#include "analyzer/report/report.h"
#include "analyzer/timeline/perfetto.h"

namespace gpuwatch::cli {
namespace {

using attribute::RankAttribution;

void keep_rank(const model::Run& run, std::vector<RankAttribution>& ranks, int wanted) {
  auto number = [&](const RankAttribution& rank) { return std::max(run.processes.at(rank.process).rank, 0); };
  std::erase_if(ranks, [&](const RankAttribution& rank) { return number(rank) != wanted; });
  if (ranks.empty())
    throw io::UserError(
        fmt::format("--rank {}: this run has no such rank; leave --rank out to see all", wanted));
}

void keep_steps(RankAttribution& rank, StepRange range) {
  size_t end = std::min(range.end, rank.steps.size());
  if (range.begin >= end)
    throw io::UserError(
        fmt::format("--steps begins at step {}, but only {} steps were recorded; choose a smaller number",
                    range.begin, rank.steps.size()));
  rank.steps.assign(rank.steps.begin() + long(range.begin), rank.steps.begin() + long(end));
  rank.times.fill(0);
  rank.wall_ns = 0;
  for (const attribute::StepAttribution& step : rank.steps) {
    for (size_t i = 0; i < attribute::kCategoryCount; ++i) rank.times[i] += step.times[i];
    rank.wall_ns += step.step.end - step.step.begin;
  }
  model::Ns first = rank.steps.front().step.begin, last = rank.steps.back().step.end;
  std::erase_if(rank.slices,
                [&](const attribute::Slice& slice) { return slice.begin < first || slice.end > last; });
}

// Readable by its owner alone, as traces are: it has the names and paths that they have.
void write_timeline(const model::Run& run, const std::vector<RankAttribution>& ranks,
                    const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0)
    throw io::UserError(fmt::format("--perfetto {}: cannot be written: {}", io::printable(path),
                                    std::generic_category().message(errno)));
  struct stat status {};
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) ::fchmod(file, 0600);  // it was there before
  ::close(file);
  std::ofstream out(path, std::ios::binary);
  timeline::write_perfetto(run, ranks, out);
  if (!out.flush())
    throw io::UserError(fmt::format("--perfetto {}: could not be written to its end; is the disk full?",
                                    io::printable(path)));
}

}  // namespace

StepRange parse_steps(const std::string& text) {
  StepRange range{0, std::numeric_limits<size_t>::max()};
  size_t colon = text.find(':');
  auto number = [&](std::string_view part, size_t& value) {
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return part.empty() || (error == std::errc() && end == part.data() + part.size());
  };
  bool is_good = colon != std::string::npos && text.size() > 1 &&
                 number(std::string_view(text).substr(0, colon), range.begin) &&
                 number(std::string_view(text).substr(colon + 1), range.end) && range.begin < range.end;
  if (!is_good) throw io::UserError(fmt::format("--steps {}: write A:B, as in 100:200", io::printable(text)));
  return range;
}

std::string analyze(const AnalyzeOptions& options, report::TextStyle style) {
  style.is_verbose = options.is_verbose;
  style.shows_kernels = options.shows_kernels;
  std::optional<StepRange> steps;
  if (!options.steps.empty()) steps = parse_steps(options.steps);
  model::Run run = model::build_run(options.traces);
  std::vector<RankAttribution> ranks = attribute::attribute(run);
  if (options.rank) keep_rank(run, ranks, *options.rank);
  if (steps)
    for (RankAttribution& rank : ranks) keep_steps(rank, *steps);
  advise::Diagnosis diagnosis = advise::diagnose(run, ranks);
  if (!options.perfetto.empty()) write_timeline(run, ranks, options.perfetto);
  report::Report report{run, ranks, diagnosis, GPUWATCH_VERSION};
  // Invalid UTF-8 cannot occur (all text is made printable); should it, a replacement beats an exception.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  if (options.json) return report::json(report).dump(2, ' ', false, kReplace) + "\n";
  if (options.perfetto.empty()) return report::text(report, style);
  return report::text(report, style) +
         fmt::format("timeline   {}, for https://ui.perfetto.dev\n", io::printable(options.perfetto));
}

}  // namespace gpuwatch::cli
