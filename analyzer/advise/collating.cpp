// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/collating.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "analyzer/advise/input_facts.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {
namespace {

using Frames = std::vector<model::StackFrame>;

constexpr double kMost = 0.5;        // of the samples, or of making a batch: the rest is elsewhere
constexpr double kHardlyElse = 0.8;  // of making a batch: workers hardly do anything else

// Where the training thread collates itself.
std::vector<model::TimeSpan> collating_inline(const RuleInput& input, const model::Loader& configured) {
  std::vector<model::TimeSpan> collating;
  for (const model::LoaderEpoch& epoch : input.process.epochs)
    for (const model::Batch& batch : epoch.batches)
      if (&input.process.loaders[epoch.loader] == &configured && batch.collate_ns > 0)
        collating.push_back(
            {batch.fetch.end - std::min(batch.collate_ns, batch.fetch.length()), batch.fetch.end});
  return collating;
}

uint32_t index_of(const RuleInput& input, const model::Loader& configured) {
  return uint32_t(&configured - input.process.loaders.data());
}

// The function that takes most of the time in collate_fn: seen in the training thread, or in workers that
// hardly do anything else.
std::optional<model::SeenFunction> slow_function(const RuleInput& input, const model::Loader& configured,
                                                 double share) {
  std::vector<model::SeenFunction> functions;
  if (input.loader->setting.workers == 0) {
    functions = model::fetch_functions(input.run, input.process, collating_inline(input, configured));
  } else if (share >= kHardlyElse) {
    functions = model::worker_activity(input.run, input.process, index_of(input, configured)).functions;
  }
  if (functions.empty() || functions.front().samples < model::kLeastStackSamples) return std::nullopt;
  return functions.front().share >= kMost ? std::optional(functions.front()) : std::nullopt;
}

// What fetch() of the DataLoader called to put the batch together: not the dataset, which it calls in a list
// comprehension (which has a frame before Python 3.12) or by __getitems__, or iterates over.
bool is_collating(const Frames& frames, Frames::const_iterator fetch) {
  constexpr std::string_view kDataset[] = {"__getitem__", "__getitems__", "__next__", "__iter__"};
  if (fetch == frames.end() || fetch == frames.begin()) return false;
  const model::StackFrame& called = *std::prev(fetch);
  const bool is_dataset = called.is_generator || std::ranges::any_of(kDataset, [&](std::string_view name) {
                            return called.function.ends_with(name);
                          });
  return !is_dataset && fetch->function.find("<listcomp>") == std::string::npos;
}

bool is_torchs_collate(const model::StackFrame& frame) {
  return frame.file.ends_with("/torch/utils/data/_utils/collate.py");
}

struct Tally {
  size_t samples = 0, by_default = 0, by_users = 0;
  model::FunctionTallies users;

  void add(const Frames& frames, double weight) {
    const auto fetch = std::ranges::find_if(frames, model::is_loader_fetch);
    if (!is_collating(frames, fetch)) return;
    ++samples;
    const bool is_torchs = std::all_of(frames.begin(), fetch, model::is_torch_or_interpreter);
    by_default += is_torchs && std::any_of(frames.begin(), fetch, is_torchs_collate);
    // The outermost: collate_fn itself, not what it calls.
    const auto outermost = std::find_if(std::make_reverse_iterator(fetch), frames.rend(), model::is_users);
    if (outermost == frames.rend()) return;
    ++by_users;
    users.add(*outermost, weight);
  }
};

std::vector<const model::WorkerStack*> collating_samples(const RuleInput& input,
                                                         const model::Loader& configured) {
  if (input.loader->setting.workers == 0)
    return model::training_samples(input.process, collating_inline(input, configured));
  return model::worker_samples(input.process, index_of(input, configured));
}

}  // namespace

double collating_share(const RuleInput& input) {
  const InputFacts* facts = input.facts;
  return facts && facts->fetch_ns > 0 ? facts->collate_ns / facts->fetch_ns : 0;
}

double collating_mostly(const RuleInput& input) {
  const double share = collating_share(input);
  return share >= kMost ? share : 0;
}

Collating seen_collating(const RuleInput& input, double share) {
  Collating collating;
  const model::Loader* configured = input.configured_loader();
  if (!configured || !input.loader) return collating;
  collating.slow = slow_function(input, *configured, share);
  Tally tally;
  for (const model::WorkerStack* sample : collating_samples(input, *configured)) {
    const auto text = input.run.texts.find(sample->text);
    if (text != input.run.texts.end())
      tally.add(model::frames_of(text->second), double(std::max<model::Ns>(0, sample->weight)));
  }
  // Samples of PyTorch's own dataset of tensors have one shape; no collate_fn of the script was seen.
  const bool is_of_tensors = configured->dataset.ends_with("TensorDataset") && configured->batch_size > 1;
  const bool is_seen = tally.samples >= model::kLeastStackSamples;
  const auto is_most = [&](size_t part) { return is_seen && double(part) >= kMost * double(tally.samples); };
  collating.is_default = is_most(tally.by_default) || (is_of_tensors && tally.by_users == 0);
  if (is_most(tally.by_users)) collating.users = tally.users.by_share().front().frame;
  return collating;
}

predict::LoaderReplayInput with_collating(const predict::LoaderReplayInput& recorded, double left) {
  predict::LoaderReplayInput changed = recorded;
  for (predict::ReplayEpoch& epoch : changed.epochs) {
    for (predict::BatchCost& batch : epoch.batches) {
      if (batch.service_ns <= 0) continue;
      const double kept = 1 - (1 - left) * batch.collate_ns / batch.service_ns;
      for (double* part : {&batch.service_ns, &batch.cpu_ns, &batch.io_ns}) *part *= kept;
      batch.collate_ns *= left;
    }
  }
  return changed;
}

bool has_unformatted_rows(const RuleInput& input) {
  if (!model::is_made_in(input.configured_loader(), "/datasets/arrow_dataset.py")) return false;
  // Formatters of tensors have files of their own; a transform is called by the CustomFormatter.
  const auto formats = [](const model::StackFrame& frame) {
    return frame.function.find("CustomFormatter") != std::string::npos ||
           (frame.file.find("/datasets/formatting/") != std::string::npos &&
            !frame.file.ends_with("/formatting.py") && !frame.file.ends_with("/__init__.py"));
  };
  return std::ranges::none_of(input.process.threads, [&](const model::Thread& thread) {
    return std::ranges::any_of(thread.worker_stacks, [&](const model::WorkerStack& sample) {
      const auto text = input.run.texts.find(sample.text);
      return text != input.run.texts.end() && std::ranges::any_of(model::frames_of(text->second), formats);
    });
  });
}

}  // namespace gpuwatch::advise
