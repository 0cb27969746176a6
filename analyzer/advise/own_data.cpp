// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/own_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/steady_time.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/cpu_time.h"
#include "analyzer/model/script_work.h"

namespace gpuwatch::advise {
namespace {

using attribute::Bottleneck;
using attribute::Category;
using model::Ns;
using model::TimeSpan;
using trace::OpClass;

constexpr double kMostOfIt = 0.5;

bool reads(OpClass op_class) {
  return op_class == OpClass::Open || op_class == OpClass::Stat || op_class == OpClass::Read ||
         op_class == OpClass::Receive;
}

// The calls of the training thread in these spans that read, each of which was long enough to be recorded.
class Reading {
 public:
  Reading(const RuleInput& input, const std::vector<TimeSpan>& spans) : input_(input) {
    if (input.process.training_thread >= input.process.threads.size()) return;
    const model::Thread& thread = input.process.threads[input.process.training_thread];
    auto span = spans.begin();
    Ns end = 0;  // of the outermost call: open() within stat() counts once
    for (const model::HostCall& call : thread.calls) {
      while (span != spans.end() && span->end <= call.begin) ++span;
      if (span == spans.end()) break;
      if (call.begin < span->begin || call.begin < end || !reads(call.op_class)) continue;
      end = call.end;
      add(thread, call);
    }
  }

  void put(OwnData& data, double wall_ns) const {
    data.reading = ns_ / wall_ns;
    data.remote = remote_ns_ / wall_ns;
    data.files = files_;
    double most = 0;
    for (const auto& [mount, ns] : by_mount_) {
      if (ns <= most) continue;
      most = ns;
      data.mount = mount;
    }
  }

 private:
  void add(const model::Thread& thread, const model::HostCall& call) {
    const double ns = double(call.end - call.begin);
    ns_ += ns;
    files_ += call.op_class == OpClass::Open;
    if (call.op_class == OpClass::Receive) {
      remote_ns_ += ns;
      return;
    }
    if (call.detail >= thread.io_details.size()) return;
    const model::Mount* mount = mount_of(thread.io_details[call.detail].path());
    if (!mount) return;
    by_mount_[mount] += ns;
    if (mount->is_remote) remote_ns_ += ns;
  }

  const model::Mount* mount_of(uint32_t text) {
    const auto [known, is_new] = mounts_.try_emplace(text, nullptr);
    const auto name = is_new ? input_.run.texts.find(text) : input_.run.texts.end();
    if (name == input_.run.texts.end()) return known->second;
    const auto mount = std::ranges::find(input_.process.mounts, name->second, &model::Mount::point);
    if (mount != input_.process.mounts.end()) known->second = &*mount;
    return known->second;
  }

  const RuleInput& input_;
  double ns_ = 0, remote_ns_ = 0, files_ = 0;
  std::map<const model::Mount*, double> by_mount_;
  std::map<uint32_t, const model::Mount*> mounts_;  // by text: there are far fewer than calls
};

// The thread that reads most of what the training thread waits for. A poll counts where the thread exchanges
// messages: an event loop that waits for its requests, and not one that nothing asks.
void put_producer(const RuleInput& input, const std::vector<TimeSpan>& spans, double wall_ns, OwnData& data) {
  constexpr size_t kExchanges = 5;
  for (size_t t = 0; t < input.process.threads.size(); ++t) {
    if (t == input.process.training_thread) continue;
    double files_ns = 0, network_ns = 0, poll_ns = 0, opened = 0;
    size_t exchanges = 0;
    for (const model::HostCall& call : input.process.threads[t].calls) {
      const bool is_within = std::ranges::any_of(
          spans, [&](const TimeSpan& span) { return call.begin >= span.begin && call.begin < span.end; });
      if (!is_within) continue;
      const double ns = double(call.end - call.begin);
      exchanges += call.op_class == OpClass::Receive || call.op_class == OpClass::Send;
      opened += call.op_class == OpClass::Open;
      if (call.op_class == OpClass::Poll)
        poll_ns += ns;
      else if (call.op_class == OpClass::Receive)
        network_ns += ns;
      else if (reads(call.op_class))
        files_ns += ns;
    }
    if (exchanges >= kExchanges) network_ns += poll_ns;
    const double reading = std::min(1.0, (files_ns + network_ns) / wall_ns);
    if (reading <= data.reading) continue;
    data.reading = reading;
    data.remote = std::min(1.0, network_ns / wall_ns);
    data.files = opened;
  }
}

// One that only an evaluation reads does not make the training's data.
bool has_loader(const RuleInput& input) {
  return input.rank.steps.empty() ? !input.process.loaders.empty() : input.configured_loader() != nullptr;
}

// JAX computes on threads of its own while the loop waits: what the job used of the cores stays, but for the
// half that may be the other thread's.
double ceiling_by_cpu(const RuleInput& input) {
  constexpr double kLeastLeft = 0.5;
  double used = 0;
  for (const TimeSpan& span : steady_time(input))
    used = std::max(used, model::cpu_time(input.process, span).own_ns / double(span.length()));
  const double cores = std::max(1u, input.process.cpu_count);
  return used > 0 ? std::max(1.0, cores / (kLeastLeft * used)) : std::numeric_limits<double>::infinity();
}

// Unless something else is known to take more of the steps.
void set_verdict(Finding& finding, const RuleInput& input, const OwnData& data) {
  constexpr Bottleneck kOthers[] = {Bottleneck::Host, Bottleneck::Communication, Bottleneck::Machine};
  for (const Bottleneck other : kOthers)
    if (input.rank.share(other) > data.share.share) return;
  const bool has_steps = !input.rank.steps.empty();
  finding.verdict = Verdict{"input-bound",
                            fmt::format("INPUT-BOUND: {}, {:.0f}% of {}",
                                        data.is_awaited ? "training waits for data that another thread makes"
                                                        : "the training thread itself makes the data",
                                        100 * data.share.share,
                                        has_steps ? fmt::format("each step ({:.4g} of {:.4g} ms)",
                                                                data.share.share * input.rank.mean_step_ms(),
                                                                input.rank.mean_step_ms())
                                                  : "the time"),
                            *finding.ceiling_speedup, Bottleneck::Input};
}

}  // namespace

OwnDataCause cause_of(const OwnData& data) {
  if (data.reading < kMostOfIt * data.share.share) return OwnDataCause::kComputes;
  return data.remote >= kMostOfIt * data.reading ? OwnDataCause::kReadsRemote : OwnDataCause::kReadsFiles;
}

std::optional<OwnData> own_data(const RuleInput& input) {
  if (input.device || input.device_hidden() || has_loader(input)) return std::nullopt;
  const std::vector<TimeSpan> spans = steady_time(input);
  OwnData data;
  auto seen = model::own_input(input.run, input.process, spans);
  if ((!seen || seen->share.low < kLeastOwnData) && input.rank.steps.empty()) {
    seen = model::own_input(input.run, input.process, spans, model::awaiting_code);
    data.is_awaited = true;
  }
  if (!seen || seen->share.low < kLeastOwnData) return std::nullopt;
  data.share = seen->share;
  data.function = seen->function;
  data.line = seen->line;
  double wall_ns = 0;
  for (const TimeSpan& span : spans) wall_ns += double(span.end - span.begin);
  if (!data.is_awaited) {
    Reading(input, spans).put(data, wall_ns);
    return data;
  }
  put_producer(input, spans, wall_ns, data);
  if (cause_of(data) != OwnDataCause::kComputes) return data;
  // A thread that computes may as well write a checkpoint, unless it is waited for where data comes from.
  const auto for_data = model::own_input(input.run, input.process, spans, model::awaited_data_code);
  if (!for_data || for_data->share.low < kLeastOwnData) return std::nullopt;
  data.share = for_data->share;
  data.function = for_data->function;
  data.line = for_data->line;
  return data;
}

std::string own_data_words(const RuleInput& input) {
  const OwnData& data = *input.own_data;
  const std::string library = io::printable(std::string(model::library_of(data.function)));
  return fmt::format("the training thread {} {:.0f}% of {} in {}(){}{}", data.is_awaited ? "waits" : "spends",
                     100 * data.share.share, input.rank.steps.empty() ? "the time" : "each step",
                     io::printable(data.function.function), library.empty() ? "" : " of " + library,
                     data.is_awaited ? " for another thread" : "");
}

std::optional<Finding> own_data_finding(const Rule& rule, const RuleInput& input, OwnDataCause cause) {
  if (!input.own_data || cause_of(*input.own_data) != cause) return std::nullopt;
  const OwnData& data = *input.own_data;
  Finding finding = make_finding(rule, input, data.share.share);
  finding.bottleneck = Bottleneck::Input;
  finding.evidence = {{fmt::format("stack samples in {}()", io::printable(data.function.function)),
                       100 * data.share.share, "% of those of the training thread"},
                      {"opening and reading files, receiving", 100 * data.reading, "% of the time"}};
  if (data.mount)
    finding.evidence.push_back(
        {fmt::format("part of that on remote storage; most on {} ({})", io::printable(data.mount->point),
                     io::printable(data.mount->type)),
         data.reading > 0 ? 100 * data.remote / data.reading : 0, "%"});
  finding.fix.location = data.line.location();
  // What computes the data belongs to the steps' compute: the quickest steps have less of it, and less of
  // everything. Without that a buffer that gained 2.66 times was bounded by 2.16.
  finding.ceiling_speedup = ceiling_without_input(input, data.share.high);
  if (data.is_awaited) finding.ceiling_speedup = std::min(*finding.ceiling_speedup, ceiling_by_cpu(input));
  set_verdict(finding, input, data);
  return finding;
}

}  // namespace gpuwatch::advise
