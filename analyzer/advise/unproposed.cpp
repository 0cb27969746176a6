// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/unproposed.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/read_scaling.h"
#include "analyzer/advise/storage.h"
#include "analyzer/advise/worker_bound.h"

namespace gpuwatch::advise {
namespace {

// Of the fetch: a dataset that does not read is not asked about disks.
constexpr double kReadsAtAll = 0.01;
constexpr int kMostAhead = 16;  // as in dataloader-prefetch

// What a range leaves open is said from here on: a range of 35 to 120 ms was "no gain" for its middle of 110.
constexpr double kOpenGain = 1.10;

// Of what this run leaves open, at best. A range as wide as these is no prediction (loader_prediction). Of
// the setting before the low end, too: what is open of both is no gain.
double gain_at_best(const RuleInput& input, const predict::LoaderSetting& before,
                    const predict::LoaderSetting& after) {
  const auto best_ms = [&](const predict::LoaderSetting& setting) {
    const double low = predict::replay_estimate(in_the_long_run(*input.loader, setting), setting).low;
    return std::max(low, input.least_step_ms());
  };
  return best_ms(before) / best_ms(after);
}

std::string gain_words(double speedup) {
  const double percent = 100 * (speedup - 1);
  return percent < 1 ? "<1%" : fmt::format("{:.0f}%", percent);
}

// The recorded setting with what the findings change of one option, and with all that they change of the
// loader.
struct Proposed {
  predict::LoaderSetting of_option, of_all;
  std::string others;  // what else they change, as their fixes say it
};

Proposed proposed(const RuleInput& input, const std::vector<Finding>& findings, LoaderOption option) {
  Proposed result{input.loader->setting, input.loader->setting, ""};
  for (const Finding& finding : findings) {
    if (!finding.is_complaint() || finding.is_alternative) continue;
    if (!apply(finding.fix.change, result.of_all)) continue;
    const auto* change = std::get_if<LoaderChange>(&finding.fix.change);
    if (change && change->option == option)
      apply(finding.fix.change, result.of_option);
    else
      result.others += (result.others.empty() ? "" : ", ") + finding.fix.summary;
  }
  return result;
}

// One thing to try on top of a setting.
struct Try {
  LoaderOption option;
  std::string words;                                          // "more than 4 workers"
  std::function<void(predict::LoaderSetting& setting)> edit;  // makes of a setting the one to try
  std::string forbidden_by;                                   // why no finding may propose it; "": nothing
  bool is_asked = true;  // worth a word where it gains nothing; else only where it would gain
};

// What a user would try next and what it would bring: the answer that saves the attempt. It holds for the job
// as it is, with no more than this option changed; what only holds after other changes says so, and what
// may gain and is not proposed says why.
class Unproposed {
 public:
  Unproposed(const RuleInput& input, const std::vector<Finding>& findings)
      : input_(input), findings_(findings) {}

  UnproposedChanges list() {
    const predict::LoaderSetting all = proposed(input_, findings_, LoaderOption::kNumWorkers).of_all;
    if (all.workers < 1) {
      try_first_workers();
    } else {
      try_more_workers();
      try_longer_buffer(all);
      if (all.in_order && all.workers > 1)
        add({LoaderOption::kInOrder, "in_order=False", [](auto& setting) { setting.in_order = false; }, "",
             false});
      try_all();
    }
    add_storage();
    return std::move(result_);
  }

 private:
  size_t said() const { return result_.no_gain.size() + result_.may_gain.size(); }

  double gain(const predict::LoaderSetting& before, const Try& wanted) const {
    predict::LoaderSetting after = before;
    wanted.edit(after);
    return expected_step_ms(input_, *input_.loader, before) / expected_step_ms(input_, *input_.loader, after);
  }

  // Whether storage serves more readers as fast: then nothing is known of what they gain.
  bool is_open(predict::LoaderSetting setting, const Try& wanted) const {
    wanted.edit(setting);
    const auto outlook = Reads(input_, *input_.loader).outlook(setting);
    return outlook && outlook->is_open();
  }

  void add(const Try& wanted) {
    const Proposed from = proposed(input_, findings_, wanted.option);
    if (is_open(from.of_all, wanted)) return;
    const double alone = gain(from.of_option, wanted), on_top = gain(from.of_all, wanted);
    if (on_top >= kLeastSpeedup) {
      const std::string why =
          wanted.forbidden_by.empty() ? "the prediction may be off by more" : wanted.forbidden_by;
      result_.may_gain.push_back(
          fmt::format("{} ({} expected; not proposed: {})", wanted.words, gain_words(on_top), why));
      return;
    }
    if (!wanted.is_asked || !wanted.forbidden_by.empty()) return;
    if (alone < kLeastSpeedup && is_of_these_workers(wanted, from))
      add_what_gains_nothing(wanted, from.of_option, alone);
    else
      result_.no_gain.push_back(
          fmt::format("{} after \"{}\" ({})", wanted.words, from.others, gain_words(on_top)));
  }

  // For certain, or as far as this run tells.
  void add_what_gains_nothing(const Try& wanted, const predict::LoaderSetting& before, double expected) {
    predict::LoaderSetting after = before;
    wanted.edit(after);
    const double at_best = gain_at_best(input_, before, after);
    if (at_best < kOpenGain)
      result_.no_gain.push_back(fmt::format("{} ({}: {})", wanted.words, gain_words(expected),
                                            predict::limit_words(*input_.loader, after)));
    else if (wanted.option == LoaderOption::kNumWorkers)
      result_.may_gain.push_back(
          fmt::format("{} ({} expected, {:.1f}x at best; not proposed: this run leaves open which)",
                      wanted.words, gain_words(expected), at_best));
  }

  // What is said of a buffer holds for workers that there are.
  static bool is_of_these_workers(const Try& wanted, const Proposed& from) {
    return wanted.option == LoaderOption::kNumWorkers || from.of_option.workers > 0;
  }

  // No worker is suggested: if that is because none would help, say so.
  void try_first_workers() {
    const int workers = best_workers(input_, *input_.loader, input_.loader->setting);
    add({LoaderOption::kNumWorkers, fmt::format("num_workers={}", workers),
         [=](auto& setting) { setting.workers = workers; }, ""});
  }

  void try_more_workers() {
    const predict::LoaderSetting setting = proposed(input_, findings_, LoaderOption::kNumWorkers).of_option;
    const int workers = setting.workers;
    if (workers < 1) return;
    const WorkerBound bound = worker_bound(input_, *input_.loader, setting);
    const auto more_than = [](int count) {
      return fmt::format("more than {} worker{}", count, count == 1 ? "" : "s");
    };
    const int within = std::min(2 * workers, bound.most);
    const size_t before = said();
    if (within > workers)
      add({LoaderOption::kNumWorkers, more_than(workers), [=](auto& more) { more.workers = within; }, ""});
    if (said() > before && within == 2 * workers) return;
    const int most = std::max(workers, within);
    const size_t within_said = said();
    for (const int beyond : {4 * most, std::max(4 * most, kMostWorkers)}) {
      if (said() > within_said) return;
      add({LoaderOption::kNumWorkers, more_than(most), [=](auto& more) { more.workers = beyond; },
           bound.cause});
    }
    if (said() == before)
      add({LoaderOption::kNumWorkers, more_than(workers), [=](auto& more) { more.workers = 2 * workers; },
           ""});
  }

  void try_longer_buffer(const predict::LoaderSetting& all) {
    const int now = proposed(input_, findings_, LoaderOption::kPrefetchFactor).of_option.prefetch_factor;
    const int most = most_prefetched(input_, all, kMostAhead);
    const auto lengthen = [](int length) {
      return [=](predict::LoaderSetting& setting) { setting.prefetch_factor = length; };
    };
    const size_t before = said();
    if (2 * now < most)
      add({LoaderOption::kPrefetchFactor, fmt::format("prefetch_factor={}", most), lengthen(most), "",
           false});
    if (said() > before) return;
    add({LoaderOption::kPrefetchFactor, fmt::format("prefetch_factor={}", 2 * now), lengthen(2 * now),
         2 * now <= most ? "" : "every batch ahead takes memory"});
  }

  // What none gains alone, all together may.
  void try_all() {
    if (!result_.may_gain.empty()) return;
    add({LoaderOption::kNumWorkers, "more workers, a longer buffer and in_order=False together",
         [](predict::LoaderSetting& setting) {
           setting.workers = std::min(2 * setting.workers, kMostWorkers);
           setting.prefetch_factor = std::max(setting.prefetch_factor, kMostAhead);
           setting.in_order = false;
         },
         "", false});
  }

  void add_storage() {
    if (!input_.facts || input_.facts->io_share() < kReadsAtAll) return;
    const double speedup = speedup_without_reading(input_);
    if (speedup < kLeastSpeedup)
      result_.no_gain.push_back(fmt::format("faster storage ({}: reading takes {:.0f}% of making a batch)",
                                            gain_words(speedup), 100 * input_.facts->io_share()));
  }

  const RuleInput& input_;
  const std::vector<Finding>& findings_;
  UnproposedChanges result_;
};

}  // namespace

UnproposedChanges unproposed_changes(const RuleInput& input, const std::vector<Finding>& findings) {
  if (!input.loader || input.loader_check.trust() == predict::Trust::kCeilingOnly) return {};
  return Unproposed(input, findings).list();
}

std::optional<Limit> stall_without_setting(const RuleInput& input, const std::vector<Finding>& findings) {
  constexpr double kBound = 0.05;  // as for the verdict
  const double share = input.rank.share(attribute::Bottleneck::Input);
  const bool is_trusted = input.loader && input.loader_check.trust() != predict::Trust::kCeilingOnly;
  if (!is_trusted || share < kBound) return std::nullopt;
  for (const Finding& finding : findings)
    if (finding.is_complaint() && finding.bottleneck == attribute::Bottleneck::Input) return std::nullopt;
  predict::LoaderSetting more = input.loader->setting;
  more.workers = std::max(1, 2 * more.workers);
  if (gain_at_best(input, input.loader->setting, more) >= kOpenGain) return std::nullopt;
  return Limit{
      fmt::format("No setting of the DataLoader shortens the data stall of {:.0f}% by much: {}. What "
                  "remains is cheaper samples, or smaller and fewer tensors in a batch.",
                  100 * share, predict::limit_words(*input.loader, input.loader->setting)),
      true};
}

}  // namespace gpuwatch::advise
