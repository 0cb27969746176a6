// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kPaddingWaste;

namespace {

using attribute::Category;
using Shapes = InputFacts::Shapes;

constexpr double kLeastPadding = 0.20;
constexpr size_t kLeastBatches = 10;
constexpr double kLeastLost = 0.05;
constexpr double kBeyondLongest = 0.98;

constexpr Threshold kThresholds[] = {
    {"padding", kLeastPadding, "of the elements of a batch",
     "lengths that differ by a fifth either way leave less, and sorting costs randomness"},
    {"batches with known sizes", double(kLeastBatches), "batches", "fewer may be an odd part of the data"},
    {"computing and copying of padding", kLeastLost, "of the step", "XProf's lower band, as elsewhere"},
    {"longest samples of the batches", kBeyondLongest, "of a length that all batches have",
     "below it batches are padded to a fixed length, not to their own longest sample"},
};

double padding(const Shapes& shapes) {
  return shapes.padded > 0 ? 1 - shapes.elements / shapes.padded : 0;
}

bool is_fixed_length(const Shapes& shapes) {
  return shapes.is_one_length && shapes.to_longest < kBeyondLongest * shapes.padded;
}

void name_fix(Finding& finding, const RuleInput& input) {
  const Shapes& shapes = input.facts->shapes;
  if (is_fixed_length(shapes)) {
    finding.fix.change = NamedChange{"padding", "longest"};
    finding.fix.summary = fmt::format(
        "pad to the longest sample of each batch instead of {:.0f} (that alone leaves {:.0f} % of the "
        "elements), then batches of similar lengths",
        shapes.padded / shapes.samples, 100 * shapes.to_longest / shapes.padded);
    finding.fix.snippet = "torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)";
  } else {
    finding.fix.change = NamedChange{"batch_sampler", "by length"};
    finding.fix.summary =
        "batches of samples of similar length (a batch sampler that sorts within a few hundred samples), or "
        "several short samples packed into one";
    finding.fix.snippet = "DataLoader(..., batch_sampler=...)  # transformers: group_by_length=True";
  }
  if (const model::Loader* configured = input.configured_loader())
    finding.fix.location = configured->location;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.facts || input.facts->shapes.batches < kLeastBatches) return std::nullopt;
  const Shapes& shapes = input.facts->shapes;
  const double wasted = padding(shapes);
  const double works = input.rank.share(Category::Compute) + input.rank.share(Category::CopyH2D);
  const double lost = wasted * works;
  if (wasted < kLeastPadding || lost < kLeastLost) return std::nullopt;
  const double square = 1 - shapes.squares_least / shapes.squares_padded;

  Finding finding = make_finding(kPaddingWaste, input, lost);
  finding.title = fmt::format(
      "{:.0f} % of the batches is padding: {:.0f} elements a sample, padded to {:.0f} ({:.2f} times faster "
      "without, if work is in proportion)",
      100 * wasted, shapes.elements / shapes.samples, shapes.padded / shapes.samples,
      1 / (1 - std::min(lost, 0.95)));
  finding.evidence = {
      {"padding", 100 * wasted, "% of the elements"},
      {"elements of a sample", shapes.elements / shapes.samples, "mean"},
      {"padded to", shapes.padded / shapes.samples, "elements, mean"},
      {"longest sample of a batch", shapes.to_longest / shapes.samples, "elements, mean"},
      {"computing and copying", 100 * works, "% of the step"},
      {"saved without padding, if work is in proportion to the elements", 100 * lost, "% of the step"},
      {"at most, if it is to their square (attention)", 100 * square * works, "% of the step"}};
  name_fix(finding, input);
  finding.ceiling_speedup = 1 / (1 - std::min(square * works, 0.95));
  return finding;
}

}  // namespace

const Rule kPaddingWaste{
    "padding-waste",
    "Samples of different length are padded to one: the device computes on elements that mean nothing.",
    "Sizes of the samples that the loader's `collate_fn` was given, against the size of the batch that it "
    "made "
    "of the same field; contents are not looked at. Samples that are merely long, or all of one size, have "
    "no "
    "padding. Where the dataset itself pads, samples come with one length, and their padding is not seen. "
    "The "
    "ceiling is for work that grows with the square of the length, as attention does.",
    "Padding to the longest sample of the batch instead of a fixed length; batches of similar lengths; "
    "packing.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
