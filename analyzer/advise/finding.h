// SPDX-License-Identifier: Apache-2.0
// What the analyzer concluded, ready for the report: findings with evidence, a concrete fix and a predicted
// gain or a ceiling, a verdict, and the limits of what could be seen. Field names follow the report's JSON
// contract.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/advise/change.h"
#include "analyzer/attribute/attribution.h"
#include "analyzer/attribute/category_set.h"
#include "analyzer/attribute/step_group.h"
#include "analyzer/model/run.h"
#include "analyzer/predict/prediction.h"
#include "analyzer/predict/stream_replay.h"

namespace gpuwatch::advise {

enum class Severity { kInfo, kMinor, kMajor };  // "info" is no complaint

struct Evidence {
  std::string what;
  double value = 0;
  std::string unit;
};

struct Fix {
  std::string summary;   // an imperative that a person can act on: "Set num_workers=4"
  Change change;         // the same as data; the report's `setting` and `value`
  std::string location;  // "train.py:88", or function+offset of a binary
  std::string snippet;   // code to paste
};

struct Verdict {
  std::string id;  // input-bound host-bound copy-bound comm-bound compute-bound cpu-job healthy too-short
                   // cannot-tell no-training
  std::string sentence;
  double ceiling_speedup = 1;
  std::optional<attribute::Bottleneck> bottleneck{};  // that it names; none: not bound by anything
};

struct Finding {
  std::string id;  // stable: a row of the causes' table
  Severity severity = Severity::kMajor;
  std::string title;
  std::vector<uint32_t> ranks;
  double lost_share = 0;           // of the recorded wall time
  std::vector<Evidence> evidence;  // at least two; the report for people shows the first two
  Fix fix;
  std::optional<predict::Prediction> prediction;  // on top of the findings before it
  std::optional<predict::Prediction> alone;       // applied to the recorded job, without those before it
  std::optional<double> ceiling_speedup;
  // Its prediction, whose range is too wide to be given (ranking.h): the order of findings still knows it.
  std::optional<predict::Prediction> too_wide{};
  bool is_wide_range = false;  // by nothing but that range: the same gain of the whole job may be narrower
  const std::optional<predict::Prediction>& known_gain() const { return prediction ? prediction : too_wide; }
  // On something that cannot be seen, or of another step than the recorded one (a larger batch's): predicted
  // from the recorded step, and no other on top of it.
  bool is_conditional = false;
  // What the fix takes away may have to stay: a sleep can stand for an environment, a rate limit, or a model
  // that is only emulated; the batch size, for how training converges; and no machine with many times the
  // cores may be at hand. Counts half, as an upper bound does, and an upper bound a quarter.
  bool may_have_to_stay = false;
  // What the bound leaves out is known to be in vain, not only to cost time: counts as a whole.
  bool is_in_vain = false;
  // Measured as a share of the whole run, not of its steps (evaluation): ranked by that.
  bool is_of_the_run = false;
  // Of another: what the steps take of the run, evaluations and checkpoints between them included. It gains
  // the run no more than that.
  double part_of_run = 1;
  // Slows the run down by what these bottlenecks show: findings about them are its symptoms, and come after
  // it.
  std::vector<attribute::Bottleneck> distorts{};
  bool is_of_set_up = false;  // what the job is given, not what its steps show: a symptom of nothing
  // Gains applied alone, but nothing on top of those before it: another way to the same time.
  bool is_alternative = false;
  attribute::CategorySet explains{};                  // whose time it is about, as far as `lost_share`
  std::optional<attribute::Bottleneck> bottleneck{};  // the largest part of that; none: not about the steps
  // The rank's, with this change made; null where it changes none. Other findings are predicted on top of it.
  std::shared_ptr<const predict::StreamReplayInput> timeline{};
  std::optional<Verdict> verdict{};  // of a finding that leaves no other: a job that hangs

  bool is_complaint() const { return severity != Severity::kInfo; }
};

// Null where nothing is to be changed.
inline const Finding* first_complaint(const std::vector<Finding>& findings) {
  const auto first = std::ranges::find_if(findings, &Finding::is_complaint);
  return first == findings.end() ? nullptr : &*first;
}

// Null where there is none of this id.
inline const Finding* find(const std::vector<Finding>& findings, std::string_view id) {
  const auto found = std::ranges::find(findings, id, &Finding::id);
  return found == findings.end() ? nullptr : &*found;
}

// Something that could not be seen or concluded: what is missing, what follows, what to do.
struct Limit {
  std::string sentence;
  bool bears_on_conclusion = false;  // the report for people shows these; the others with -v
};

// The finding is of this rank. An unknown rank counts as 0.
inline bool is_about(const model::Process& rank, const Finding& finding) {
  const auto number = uint32_t(std::max(rank.rank, 0));
  return finding.ranks.empty() || std::ranges::find(finding.ranks, number) != finding.ranks.end();
}

// What a user would try next, for the report's lines of these names.
struct UnproposedChanges {
  std::vector<std::string> no_gain;   // "more than 7 workers (<1%)"
  std::vector<std::string> may_gain;  // "more than 7 workers (15% expected; not proposed: ...)"
};

struct Diagnosis {
  Verdict verdict;
  std::vector<Finding> findings;                // in the order to apply them (ranking.h)
  std::optional<predict::Prediction> together;  // all predicted ones applied; none: fewer than two
  UnproposedChanges unproposed;
  std::string unproposed_on;  // "rank 1" of several; "": the job has one
  std::vector<Limit> limits;
  std::optional<predict::ReplayCheck> replay;  // of the unchanged run, the one that predictions rest on
  std::vector<attribute::StepGroup> groups{};  // ranks that wait for each other in every step
};

// Of several ranks, which a sentence is about: "rank 1: "; "" where there is one.
std::string rank_prefix(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks,
                        const attribute::RankAttribution& rank);

}  // namespace gpuwatch::advise
