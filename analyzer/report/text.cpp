// SPDX-License-Identifier: Apache-2.0
#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/machine.h"
#include "analyzer/advise/rule.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/cpu_time.h"
#include "analyzer/model/stacks.h"
#include "analyzer/report/facts.h"

namespace gpuwatch::report {
namespace {

using advise::Finding;
using advise::Severity;
using attribute::Category;
using attribute::Group;
using attribute::RankAttribution;

constexpr size_t kLabelWidth = 7;
constexpr size_t kLeastWidth = 40;
constexpr size_t kBarWidth = 20;

// Columns of valid UTF-8 text. printable() leaves no character that is wider or narrower by design.
size_t columns(std::string_view text) {
  return size_t(std::count_if(text.begin(), text.end(),
                              [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

class Writer {
 public:
  explicit Writer(TextStyle style) : style_(style) { style_.width = std::max(style.width, kLeastWidth); }

  void headline(const std::string& sentence, fmt::color color) {
    size_t colon = sentence.find(": ");
    std::string wrapped = wrap(sentence, 0);
    if (style_.colors && colon != std::string::npos)
      wrapped = fmt::format(fmt::emphasis::bold | fmt::fg(color), "{}", wrapped.substr(0, colon)) +
                wrapped.substr(colon);
    out_ += wrapped + "\n";
  }

  void line(std::string_view label, const std::string& words, bool strong = false) {
    if (words.empty()) return;
    std::string head = fmt::format("{:<{}}", label, kLabelWidth);
    std::string body = wrap(words, kLabelWidth);
    if (style_.colors) {
      if (!label.empty()) head = fmt::format(fmt::emphasis::faint, "{}", head);
      if (strong) body = fmt::format(fmt::emphasis::bold, "{}", body);
    }
    out_ += head + body + "\n";
  }

  void numbered(size_t number, const std::string& words) {
    std::string head = fmt::format("{}. ", number);
    std::string body = wrap(words, head.size());
    out_ += (style_.colors ? fmt::format(fmt::emphasis::bold, "{}", head + body) : head + body) + "\n";
  }

  void detail(const std::string& words) {
    if (!words.empty()) out_ += "   " + wrap(words, 3) + "\n";
  }

  std::string take() { return std::move(out_); }

 private:
  // Breaks at spaces; what has none stays whole.
  std::string wrap(const std::string& words, size_t indent) const {
    std::string result;
    size_t used = indent, begin = 0;
    while (begin <= words.size()) {
      size_t space = std::min(words.find(' ', begin), words.size());
      std::string word = words.substr(begin, space - begin);
      size_t width = columns(word);
      if (begin > 0) {
        if (used + 1 + width > style_.width) {
          result += "\n" + std::string(indent, ' ');
          used = indent;
        } else {
          result += ' ';
          ++used;
        }
      }
      result += word;
      used += width;
      begin = space + 1;
    }
    return result;
  }

  TextStyle style_;
  std::string out_;
};

std::string clean(const std::string& text) {
  return io::printable(text);
}

std::string milliseconds(double ms) {
  if (ms >= 100) return fmt::format("{:.0f}", ms);
  return ms >= 10 ? fmt::format("{:.1f}", ms) : fmt::format("{:.2f}", ms);
}

std::string factor(double speedup) {
  return speedup >= 9.95 ? fmt::format("{:.0f}", speedup) : fmt::format("{:.2f}", speedup);
}

fmt::color verdict_color(const std::string& id) {
  if (id == "healthy" || id == "cpu-job" || id == "compute-bound") return fmt::color::green;
  return id == "too-short" || id == "cannot-tell" || id == "no-training" ? fmt::color::yellow
                                                                         : fmt::color::red;
}

std::string run_words(const Report& report, const RankAttribution& rank) {
  const model::Process& process = report.run.processes.at(rank.process);
  std::string script = process.script.empty() ? process.executable : process.script;
  std::string words = clean(script.substr(script.find_last_of('/') + 1));
  if (std::string name = framework(process); !name.empty()) words += ", " + clean(name);
  size_t devices = std::max<size_t>(1, report.ranks.size());
  words += fmt::format(", {}x {}", devices, clean(device_name(report, rank)));
  StepFacts facts = step_facts(rank);
  words += fmt::format(", {} steps ({} in detail)", facts.count, facts.recorded);
  if (process.is_running) words += ", still running";
  return words;
}

std::string now_words(const RankAttribution& rank, const model::Process& process) {
  StepFacts facts = step_facts(rank);
  if (facts.recorded == 0) return "";
  std::string words = fmt::format("{} ms a step", milliseconds(facts.mean_ms));
  if (facts.samples_per_step > 0)
    words =
        fmt::format("{:.4g} samples/s, batch {:.4g}, {}", facts.samples_per_s, facts.samples_per_step, words);
  for (const LoaderFacts& loader : loader_facts(process)) {
    if (loader.batches == 0) continue;
    if (loader.loader->num_workers >= 0) words += fmt::format(", num_workers {}", loader.loader->num_workers);
    break;
  }
  return words;
}

std::string step_words(const RankAttribution& rank) {
  double compute = rank.share(Category::Compute);
  double data = rank.share(Group::Input);
  double copy = rank.share(Category::CopyH2D) + rank.share(Category::CopyD2H) +
                rank.share(Category::CopyD2D) + rank.share(Category::CopyStaging);
  double comm = rank.share(Category::CommTransfer) + rank.share(Category::CommWaitPeer) +
                rank.share(Category::CommUnsplit);
  double hidden = rank.share(Category::DeviceUnobserved);
  double other = std::max(0.0, 1 - compute - data - copy - comm - hidden);
  size_t filled = std::min(kBarWidth, size_t(std::lround(compute * kBarWidth)));
  std::string words = fmt::format("compute {:.0f} % [{}{}]", 100 * compute, std::string(filled, '#'),
                                  std::string(kBarWidth - filled, '.'));
  auto add = [&](const char* name, double share) {
    if (share >= 0.005)
      words += fmt::format("{} {} {:.0f}", words.back() == ']' ? "" : ",", name, 100 * share);
  };
  add("data", data);
  add("copy", copy);
  add("communication", comm);
  add("not observed", hidden);
  add("other", other);
  return words;
}

// Causes that a worker's own work is behind.
bool is_workers_work(Category category) {
  return category == Category::InputTransform || category == Category::InputIo ||
         category == Category::InputCollate || category == Category::InputCpuStarved ||
         category == Category::InputHeadOfLine;
}

std::string place_words(const model::StackFrame& frame) {
  const std::string location = clean(frame.location());
  return fmt::format(" ({} {})", location.substr(location.find_last_of('/') + 1), clean(frame.function));
}

// Without workers nobody waits, and nobody looks: the method that makes a sample is all that is known.
std::string inline_place(const model::Process& process) {
  std::vector<size_t> batches(process.loaders.size());
  for (const model::LoaderEpoch& epoch : process.epochs) batches.at(epoch.loader) += epoch.batches.size();
  const auto most = std::max_element(batches.begin(), batches.end());
  if (most == batches.end()) return "";
  const model::Loader& loader = process.loaders[size_t(most - batches.begin())];
  const auto code = loader.num_workers == 0 ? model::sample_code(loader) : std::nullopt;
  return code ? place_words(*code) : "";
}

// " (data.py:41 augment)": where the workers of the loader with most samples were seen most; "" if nowhere
// for the larger part of the time.
std::string worker_place(const model::Run& run, const model::Process& process) {
  constexpr size_t kLeastSamples =
      10;  // 5 of 10 at one place: that place has more than a fifth (binomial, 95 %)
  constexpr double kLeastShare = 0.5;
  model::WorkerActivity most;
  for (uint32_t loader = 0; loader < process.loaders.size(); ++loader) {
    model::WorkerActivity activity = model::worker_activity(run, process, loader);
    if (activity.stack_samples > most.samples) most = std::move(activity);
  }
  if (most.samples < kLeastSamples || most.functions.front().share < kLeastShare) return "";
  return place_words(most.functions.front().frame);
}

// The causes behind what is lost, largest first.
std::string why_words(const model::Run& run, const RankAttribution& rank) {
  constexpr size_t kMost = 4;
  constexpr double kLeast = 0.01;
  std::vector<Category> causes;
  for (size_t i = 0; i < attribute::kCategoryCount; ++i) {
    auto category = static_cast<Category>(i);
    if (category != Category::Compute && rank.share(category) >= kLeast) causes.push_back(category);
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [&](Category a, Category b) { return rank.time(a) > rank.time(b); });
  std::string words;
  bool has_place = false;
  for (size_t i = 0; i < std::min(kMost, causes.size()); ++i) {
    words += fmt::format("{}{} {} ms", i ? ", " : "", attribute::info(causes[i]).words,
                         milliseconds(double(rank.time(causes[i])) / double(rank.steps.size()) / 1e6));
    if (!has_place && is_workers_work(causes[i])) {
      const model::Process& process = run.processes.at(rank.process);
      std::string place = worker_place(run, process);
      if (place.empty() && causes[i] == Category::InputTransform) place = inline_place(process);
      words += place;
      has_place = !place.empty();
    }
  }
  return words;
}

std::string cpu_words(const model::Process& process) {
  if (process.machine_samples.size() < 2) return "";
  const model::TimeSpan span{process.machine_samples.front().time, process.machine_samples.back().time};
  if (span.length() <= 0) return "";
  const model::CpuTime time = model::cpu_time(process, span);
  const double cores = (time.own_ns + time.workers_ns) / double(span.length());
  return fmt::format("{}{:.1f} of {} cores used", time.is_least ? "at least " : "", cores, process.cpu_count);
}

std::string short_location(const std::string& location) {
  std::string safe = clean(location);
  return safe.substr(safe.find_last_of('/') + 1);
}

std::string finding_words(const Finding& finding, bool is_first) {
  std::string words = is_first ? "" : "then ";
  words += clean(finding.fix.summary.empty() ? finding.title : finding.fix.summary);
  if (!finding.fix.location.empty()) words += fmt::format(" ({})", short_location(finding.fix.location));
  if (finding.prediction) {
    const predict::Prediction& p = *finding.prediction;
    const char* unit = p.metric == "step_ms" ? "ms" : "samples/s";
    words += fmt::format("   {} -> {} {} ({}-{}), {}-{}x", milliseconds(p.now),
                         milliseconds(p.value.expected), unit, milliseconds(p.value.low),
                         milliseconds(p.value.high), factor(p.speedup.low), factor(p.speedup.high));
  } else if (finding.ceiling_speedup) {
    words += fmt::format("   at most {} times", factor(*finding.ceiling_speedup));
  }
  return words;
}

void write_findings(Writer& writer, const std::vector<Finding>& findings) {
  size_t number = 0;
  bool is_first = true;
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::kInfo) continue;
    writer.numbered(++number, finding_words(finding, is_first || finding.is_conditional));
    writer.detail(clean(finding.title));
    if (finding.prediction && !finding.is_conditional) is_first = false;
  }
  for (const Finding& finding : findings)
    if (finding.severity == Severity::kInfo && finding.id != "healthy")
      writer.line("note", clean(finding.title) +
                              (finding.fix.summary.empty() ? "" : "; " + clean(finding.fix.summary)));
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string result;
  for (const std::string& part : parts) result += (result.empty() ? "" : between) + part;
  return result;
}

std::string trust_words(const Report& report) {
  std::vector<std::string> parts;
  if (report.diagnosis.replay)
    parts.push_back(fmt::format("replay off {:.1f} %", 100 * std::abs(report.diagnosis.replay->error())));
  if (const std::optional<double> own_cost = own_cost_share(report))
    parts.push_back(fmt::format("own cost about {:.1g} %", std::max(0.01, 100 * *own_cost)));
  uint64_t lost = 0;
  for (const model::Process& process : report.run.processes)
    for (const auto& [reason, count] : process.dropped_records) lost += count;
  parts.push_back(fmt::format("lost {}", lost));
  if (report.run.kernels_total > 0)
    parts.push_back(fmt::format("kernels matched {:.0f} %", 100 * matched_share(report.run)));
  return joined(parts, ", ");
}

std::string next_words(const std::vector<Finding>& findings, const advise::Verdict& verdict) {
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::kInfo) continue;
    std::string where =
        finding.fix.location.empty() ? "make change 1" : "change " + short_location(finding.fix.location);
    return where + ", run again, compare the two reports";
  }
  if (verdict.id == "too-short") return "record a longer run";
  return verdict.id == "healthy" || verdict.id == "cpu-job" || verdict.id == "compute-bound" ? "nothing" : "";
}

// A process that serves one that trains, as loader workers do and those of torch.compile, which it kills at
// its end.
bool is_helper(const model::Run& run, const model::Process& process) {
  if (process.worker_of != model::kNone) return true;
  if (process.is_rank()) return false;
  uint32_t parent = process.parent;
  for (size_t i = 0; i < run.processes.size() && parent != model::kNone; ++i) {
    if (run.processes[parent].is_rank()) return true;
    parent = run.processes[parent].parent;
  }
  return false;
}

// A job that did not end by itself: how it ended, and what each thread waited in.
void write_end(Writer& writer, const Report& report) {
  for (const model::Process& process : report.run.processes) {
    if (is_helper(report.run, process)) continue;
    if (process.end_state != model::EndState::kKilledOrRunning || process.is_running) continue;
    writer.line(
        "end",
        fmt::format("process {} was killed or lost its machine: its last record has no end", process.pid),
        true);
    constexpr size_t kMostThreads = 8;
    std::vector<std::string> waiting = open_call_words(report.run, process);
    for (size_t i = 0; i < std::min(kMostThreads, waiting.size()); ++i)
      writer.line(i ? "" : "was in", clean(waiting[i]));
    if (waiting.size() > kMostThreads)
      writer.line("", fmt::format("and {} more threads", waiting.size() - kMostThreads));
  }
  for (const model::Process& process : report.run.processes)
    if (!is_helper(report.run, process) && process.end_state == model::EndState::kExited &&
        process.exit_code != 0)
      writer.line("end", fmt::format("process {} ended with exit code {}", process.pid, process.exit_code),
                  true);
}

}  // namespace

const RankAttribution* shown_rank(const Report& report) {
  const RankAttribution* shown = nullptr;
  for (const RankAttribution& rank : report.ranks)
    if (!shown || shown->steps.empty() ||
        (!rank.steps.empty() && rank.share(Group::DeviceBusy) < shown->share(Group::DeviceBusy)))
      shown = &rank;
  return shown;
}

std::string text(const Report& report, TextStyle style) {
  Writer writer(style);
  const advise::Diagnosis& diagnosis = report.diagnosis;
  writer.headline(clean(diagnosis.verdict.sentence), verdict_color(diagnosis.verdict.id));
  const RankAttribution* rank = shown_rank(report);
  if (rank) {
    const model::Process& process = report.run.processes.at(rank->process);
    writer.line("run", run_words(report, *rank));
    if (!rank->steps.empty()) {
      writer.line("now", now_words(*rank, process));
      writer.line("step", step_words(*rank));
      writer.line("why", why_words(report.run, *rank));
    }
    writer.line("CPU", cpu_words(process));
  }
  write_end(writer, report);
  write_findings(writer, diagnosis.findings);
  if (!diagnosis.no_gain.empty()) writer.line("no gain", " " + joined(diagnosis.no_gain, ", "));
  if (rank && !rank->steps.empty()) writer.line("trust", trust_words(report));
  for (size_t i = 0; i < diagnosis.limits.size(); ++i)
    writer.line(i ? "" : "unseen", clean(diagnosis.limits[i].sentence));
  writer.line("next", next_words(diagnosis.findings, diagnosis.verdict));
  return writer.take();
}

}  // namespace gpuwatch::report
