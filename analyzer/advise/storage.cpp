// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/storage.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/input_facts.h"
#include "analyzer/io/printable.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using attribute::Group;

// Or a disk as fast as it: what a faster one would gain is little.
bool is_page_cache(const InputFacts& facts) {
  return facts.is_counted && facts.bytes_s() > kCacheBytesS;
}

bool is_remote(const InputFacts& facts) {
  const double recorded = facts.open_ns + facts.read_ns + facts.receive_ns;
  return recorded > 0 && facts.remote_ns + facts.receive_ns >= kRemoteShare * recorded;
}

// np.load() of a file of 24 MB for a crop of it: 400 MB were copied for each batch, 2.3 times as fast mapped.
bool copies_in_vain(const InputFacts& facts) {
  constexpr double kCached = 0.5;  // of the bytes: the rest came from the disk
  return is_page_cache(facts) && !is_remote(facts) && facts.io_share() >= kLeastCopyShare &&
         double(facts.disk_bytes) < (1 - kCached) * double(facts.bytes_read) && facts.tensor_bytes > 0 &&
         double(facts.bytes_read) >= kReadForNothing * facts.tensor_bytes;
}

// About one small file a sample: finding and opening it costs more than reading its bytes.
bool has_small_files(const InputFacts& facts, const model::Loader* loader) {
  if (facts.opens == 0) return false;
  const double samples = double(facts.batches) * std::max(loader ? loader->batch_size : 1, 1);
  return double(facts.opens) >= kLeastFiles * samples &&
         double(facts.bytes_read) < kSmallFileBytes * double(facts.opens);
}

}  // namespace

Reading reading_of(const RuleInput& input) {
  if (!input.loader || !input.facts) return Reading::kNotLimiting;
  const InputFacts& facts = *input.facts;
  const double waits = input.rank.steady_input_share();
  if (waits < kLeastReadWait || facts.io_share() < kLeastReadShare) return Reading::kNotLimiting;
  if (copies_in_vain(facts)) return Reading::kInVain;
  if (is_page_cache(facts)) return Reading::kNotLimiting;
  if (is_remote(facts)) return Reading::kRemote;
  return has_small_files(facts, input.configured_loader()) ? Reading::kSmallFiles : Reading::kSlow;
}

double speedup_without_reading(const RuleInput& input) {
  predict::LoaderSetting setting = input.loader_setting();
  setting.io_factor = 1;  // replaces faster storage that an earlier finding assumes
  const double now = expected_step_ms(input, *input.loader, setting);
  setting.io_factor = 0;
  const double after = expected_step_ms(input, *input.loader, setting);
  return after > 0 ? now / after : 1;
}

double ceiling_without_reading(const RuleInput& input) {
  const double bound = ceiling_without_input(input, input.rank.share(Group::Input));
  // The reads are not all that goes with them. A cache spares the client's own work (connections, TLS,
  // parsing), which is no blocked read: pictures from an object store became 21 times as fast with one, where
  // the reads alone were 4.6 times. Samples that are packed, or copied from a mount, are not searched for,
  // opened, checked and closed one by one, in Python or in the file system's process: 31.7 times for 3.6.
  if (is_remote(*input.facts) || has_small_files(*input.facts, input.configured_loader())) return bound;
  return std::clamp(speedup_without_reading(input), 1.0, bound);
}

double share_of_reading(const RuleInput& input, double ceiling) {
  constexpr double kMost = 0.5;
  const bool is_most = input.facts->io_share() >= kMost;
  return 1 - 1 / (is_most ? ceiling : std::clamp(speedup_without_reading(input), 1.0, ceiling));
}

std::string data_stall_words(const RuleInput& input) {
  return stall_words(input, input.rank.steady_input_share());
}

std::vector<Evidence> reading_evidence(const RuleInput& input) {
  const InputFacts& facts = *input.facts;
  std::vector<Evidence> result = {share_evidence(input, Category::InputIo),
                                  {"file I/O", facts.per_batch(facts.io_ns) / 1e6, "ms a batch"},
                                  {"file I/O", 100 * facts.io_share(), "% of the fetch"}};
  if (facts.is_counted) {
    result.push_back({"bytes read", facts.per_batch(double(facts.bytes_read)) / 1e6, "MB a batch"});
    result.push_back({"files opened", facts.per_batch(double(facts.opens)), "a batch"});
    result.push_back({"read throughput of a worker", facts.bytes_s() / 1e6, "MB/s"});
    if (facts.bytes_read > 0)
      result.push_back({"bytes that missed the page cache",
                        std::min(100.0, 100 * double(facts.disk_bytes) / double(facts.bytes_read)),
                        "% of the bytes read"});
  }
  if (facts.mount)
    result.push_back({fmt::format("file I/O on {} ({})", io::printable(facts.mount->point),
                                  io::printable(facts.mount->type)),
                      facts.per_batch(facts.mount_ns) / 1e6, "ms a batch"});
  if (facts.disk_busy_share > 0)
    result.push_back({"busiest disk active", 100 * facts.disk_busy_share, "% of the time"});
  return result;
}

// loader->code is "data.py:41 __getitem__"; the location is its part before the blank.
std::string reading_location(const RuleInput& input) {
  const model::Loader* loader = input.configured_loader();
  if (!loader) return "";
  return loader->code.empty() ? loader->location : loader->code.substr(0, loader->code.find(' '));
}

std::string size_words(double bytes) {
  if (bytes >= 1024.0 * 1024 * 1024) return fmt::format("{:.3g} GiB", bytes / (1024.0 * 1024 * 1024));
  if (bytes >= 1024.0 * 1024) return fmt::format("{:.3g} MiB", bytes / (1024.0 * 1024));
  return fmt::format("{:.3g} KiB", bytes / 1024);
}

}  // namespace gpuwatch::advise
