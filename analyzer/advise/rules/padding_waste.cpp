// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/rule.h"
#include "analyzer/advise/unseen_pipeline.h"

namespace gpuwatch::advise {

extern const Rule kPaddingWaste;

namespace {

using attribute::Category;
using Shapes = InputFacts::Shapes;

constexpr double kLeastPadding = 0.10;
constexpr size_t kLeastBatches = 10;
constexpr double kLeastLost = 0.05;
constexpr double kBeyondLongest = 0.98;

constexpr Threshold kThresholds[] = {
    {"padding", kLeastPadding, "of the elements of a batch",
     "batches of similar length cost randomness, for a gain of less than a tenth"},
    {"batches with known sizes", double(kLeastBatches), "batches",
     "fewer may be an unusual part of the data"},
    {"compute and copies of padding", kLeastLost, "of the step", "XProf's lower band"},
    {"longest samples of the batches", kBeyondLongest, "of a length that all batches have",
     "below it batches are padded to a fixed length, not to their longest sample"},
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
        "Pad each batch to its longest sample instead of {:.0f} elements (leaves {:.0f}% of the elements)",
        shapes.padded / shapes.samples, 100 * shapes.to_longest / shapes.padded);
    finding.fix.snippet =
        input.process.facts.contains("transformers")
            ? "DataCollatorWithPadding(tokenizer)  # no padding=\"max_length\" where texts are tokenized"
            : "torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)";
  } else {
    finding.fix.change = NamedChange{"batch_sampler", "by length"};
    finding.fix.summary =
        "Batch samples of similar length with a batch sampler, or pack several short samples into one";
    finding.fix.snippet =
        "DataLoader(..., batch_sampler=...)  # transformers 5: train_sampling_strategy=\"group_by_length\"";
  }
  if (const model::Loader* configured = input.configured_loader())
    finding.fix.location = configured->location;
}

// A stage that pads: what it takes and what it hands on, with all components of a sample.
const model::StageWork* padding_stage(const UnseenPipeline& pipeline) {
  if (!pipeline.work) return nullptr;
  const auto found = std::ranges::find_if(pipeline.work->stages, [](const model::StageWork& stage) {
    return stage.name.find("PaddedBatch") != stage.name.npos && stage.bytes_out > 0;
  });
  return found == pipeline.work->stages.end() ? nullptr : &*found;
}

void name_fix(Finding& finding, const model::Loader& loader, const model::StageWork& stage) {
  if (stage.is_one_size) {
    finding.fix.change = NamedChange{"padded_shapes", "None"};
    finding.fix.summary =
        "Pad each batch to its longest sample: None for that size in padded_shapes; batches of similar "
        "lengths, by "
        "bucket_by_sequence_length, have less padding yet";
    finding.fix.snippet = "dataset = dataset.padded_batch(32, padded_shapes=([None, 3], []))";
  } else {
    finding.fix.change = NamedChange{"bucket_by_sequence_length", ""};
    finding.fix.summary = "Batch samples of similar length by bucket_by_sequence_length";
    finding.fix.snippet =
        "dataset = dataset.bucket_by_sequence_length(lambda x, y: tf.shape(x)[0], boundaries, batch_sizes)";
  }
  finding.fix.location = batch_size_location(loader);
}

// tf.data counts the bytes that its stage padded_batch takes and hands on.
std::optional<Finding> in_pipeline(const RuleInput& input) {
  const auto pipeline = unseen_pipeline(input);
  const model::StageWork* stage = pipeline ? padding_stage(*pipeline) : nullptr;
  if (!stage) return std::nullopt;
  const double wasted = 1 - stage->bytes_in / stage->bytes_out;
  const double work = input.rank.share(Category::Compute) + input.rank.share(Category::CopyH2D);
  const double lost = wasted * work;
  if (wasted < kLeastPadding || lost < kLeastLost) return std::nullopt;
  const double square = 1 - (1 - wasted) * (1 - wasted);
  Finding finding = make_finding(kPaddingWaste, input, lost);
  finding.title = fmt::format("Padding: {:.0f}% of each batch of {}", 100 * wasted,
                              framework_name(input.configured_loader()->framework));
  finding.evidence = {
      {"padding", 100 * wasted, "% of the bytes of a batch"},
      {"samples of a batch", stage->bytes_in / 1e3, "kB"},
      {"padded batch", stage->bytes_out / 1e3, "kB"},
      {"compute and exposed H2D copies", 100 * work, "% of the step"},
      {"saved without padding, if time grows with the elements", 100 * lost, "% of the step"}};
  name_fix(finding, *input.configured_loader(), *stage);
  finding.ceiling_speedup = 1 / (1 - std::min(square * work, 0.95));
  return finding;
}

// Of the step, what also shrinks with the elements of a batch: workers write the padding and send it, and
// where they and training compete for cores, both ask for less. Of dialogues padded in workers compute alone
// bounded batches of similar length by 1.6x, and they gained 1.7 and 2.3.
double made_and_sent(const RuleInput& input) {
  const double competing = input.loader->setting.workers > 0 ? input.rank.share(Category::Sched) : 0;
  return input.rank.share(Category::InputCollate) + input.rank.share(Category::InputTransfer) + competing;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.loader) return in_pipeline(input);
  if (!input.facts || input.facts->shapes.batches < kLeastBatches) return std::nullopt;
  const Shapes& shapes = input.facts->shapes;
  const double wasted = padding(shapes);
  const double work = input.rank.share(Category::Compute) + input.rank.share(Category::CopyH2D);
  const double lost = wasted * work;
  if (wasted < kLeastPadding || lost < kLeastLost) return std::nullopt;
  const double square = 1 - shapes.squares_least / shapes.squares_padded;

  Finding finding = make_finding(kPaddingWaste, input, lost);
  finding.title =
      fmt::format("Padding: {:.0f}% of each batch, samples of {:.0f} elements are padded to {:.0f}",
                  100 * wasted, shapes.elements / shapes.samples, shapes.padded / shapes.samples);
  finding.evidence = {{"padding", 100 * wasted, "% of the elements"},
                      {"mean sample", shapes.elements / shapes.samples, "elements"},
                      {"mean padded sample", shapes.padded / shapes.samples, "elements"},
                      {"mean longest sample of a batch", shapes.to_longest / shapes.samples, "elements"},
                      {"compute and exposed H2D copies", 100 * work, "% of the step"},
                      {"saved without padding, if time grows with the elements", 100 * lost, "% of the step"},
                      {"saved without padding, if time grows with their square (attention)",
                       100 * square * work, "% of the step"}};
  name_fix(finding, input);
  const double most = share_of_now(input, square * work + wasted * made_and_sent(input) * input.input_factor);
  finding.ceiling_speedup = 1 / (1 - std::min(most, 0.95));
  return finding;
}

}  // namespace

const Rule kPaddingWaste{
    "padding-waste",
    "Samples of different lengths are padded to one length, and the GPU computes on the padding.",
    "The sizes of the samples that the loader's `collate_fn` received against the size of the batch that it "
    "made of the same field; of tf.data, the bytes that `padded_batch` takes and hands on. Where the dataset "
    "itself pads, all samples arrive with one length: the ones and zeros of the batch's mask "
    "(`attention_mask`, or a tensor of the tokens' size whose rows are ones and then zeros) say how long "
    "they were. No other contents are looked at. Samples that are merely long, or all of one size, have no "
    "padding. The upper bound assumes that time grows with the square of the length, as in attention.",
    "Pad to the longest sample of the batch instead of a fixed length, batch samples of similar length, or "
    "pack several samples into one.",
    kThresholds,
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Input) |
        attribute::CategorySet{attribute::Category::Compute}};

}  // namespace gpuwatch::advise
