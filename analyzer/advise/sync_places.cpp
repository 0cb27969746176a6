// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/sync_places.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analyzer/advise/copies.h"
#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/location.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {
namespace {

using predict::HostEvent;
using predict::HostRole;
using trace::OpClass;

// Bytes that the event copies to the host, if it puts no other work on a stream.
std::optional<double> copied_to_host(const RuleInput& input, const HostEvent& event) {
  double bytes = 0;
  for (uint32_t i = event.first_op; i < event.first_op + event.op_count; ++i) {
    const model::DeviceOp& op = input.device->operations[input.streams->ops[i].device_op];
    if (op.kind != trace::RecordKind::CopyD2H) return std::nullopt;
    bytes += double(op.bytes);
  }
  return bytes;
}

class Finder {
 public:
  explicit Finder(const RuleInput& input) : input_(input) {}

  void add(const HostEvent& event) {
    const auto copied = copied_to_host(input_, event);
    if (event.op_class == OpClass::Free && event.role == HostRole::kSync) {
      SyncPlace& place = place_of(event, 0);
      place.is_free = true;
      note(place, event, 0, true);
    } else if (is_sync_point(input_, event)) {
      const bool is_first = !open_;
      if (is_first) open_ = &place_of(event, copied.value_or(0));
      note(*open_, event, copied.value_or(0), is_first);
    } else if (!copied) {
      open_ = nullptr;
    }
  }

  void close() { open_ = nullptr; }

  std::vector<SyncPlace> places() {
    std::vector<SyncPlace> result;
    for (auto& [id, place] : places_) {
      std::ranges::sort(place.members);
      result.push_back(std::move(place));
    }
    return result;
  }

 private:
  // Calling address and function; where no address is known (imported traces), the bytes that it copies.
  using Id = std::tuple<uint64_t, uint16_t, double>;

  const model::HostCall& call_of(const HostEvent& event) const {
    return input_.process.threads[event.thread].calls[event.call];
  }

  SyncPlace& place_of(const HostEvent& event, double bytes) {
    const model::HostCall& call = call_of(event);
    const uint64_t caller = model::caller_of(input_.process.threads[event.thread], call);
    return places_[{caller, call.operation, caller ? 0 : bytes}];
  }

  void note(SyncPlace& place, const HostEvent& event, double bytes, bool is_first) {
    const model::HostCall& call = call_of(event);
    const model::Ns waited = call.end - call.begin;
    place.members.push_back(uint64_t{event.thread} << 32 | event.call);
    place.waited_ns += double(waited);
    place.bytes += bytes;
    place.times += is_first;
    if (is_first && std::exchange(last_step_[&place], event.step + 1) != event.step + 1) ++place.steps;
    const auto known = std::ranges::find(place.functions, call.operation, &SyncPlace::Function::operation);
    if (known == place.functions.end())
      place.functions.push_back({call.operation, event.thread, event.call, waited});
    else if (waited > known->longest)
      *known = {call.operation, event.thread, event.call, waited};
  }

  const RuleInput& input_;
  std::map<Id, SyncPlace> places_;
  std::map<const SyncPlace*, uint32_t> last_step_;  // + 1
  SyncPlace* open_ = nullptr;                       // nothing was launched since its last call
};

}  // namespace

std::vector<SyncPlace> sync_places(const RuleInput& input) {
  const CopyFacts pageable = copy_facts(input, CopySource::kPageable);
  const HostCalls saving =
      training_calls(input, [](const model::HostCall& call) { return call.op_class == OpClass::Checkpoint; });
  const auto belongs_to_copy = pageable.filter(), belongs_to_save = events_within(input, saving);
  Finder finder(input);
  for (const HostEvent& event : input.streams->events) {
    if (belongs_to_copy(event) || belongs_to_save(event))
      finder.close();
    else
      finder.add(event);
  }
  return finder.places();
}

bool waits_like_blocking(const RuleInput& input) {
  double launched = 0, waits = 0;
  for (const HostEvent& event : input.streams->events)
    if (event.op_class == OpClass::Launch || event.op_class == OpClass::GraphLaunch)
      launched += double(event.op_count);
  for (const SyncPlace& place : sync_places(input)) waits += place.is_free ? 0 : double(place.times);
  return launched > 0 && waits >= kWaitsLikeBlocking * launched;
}

predict::EventFilter waits_at(const std::vector<SyncPlace>& places) {
  std::vector<uint64_t> members;
  for (const SyncPlace& place : places)
    members.insert(members.end(), place.members.begin(), place.members.end());
  std::ranges::sort(members);
  return [members = std::move(members)](const HostEvent& event) {
    return std::ranges::binary_search(members, uint64_t{event.thread} << 32 | event.call);
  };
}

std::string functions_of(const RuleInput& input, const std::vector<SyncPlace>& places) {
  std::vector<std::string> names;
  for (const SyncPlace& place : places) {
    for (const SyncPlace::Function& function : place.functions) {
      if (function.operation >= input.run.operations.size()) continue;
      const std::string& name = input.run.operations[function.operation].name;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  if (names.empty()) return "a synchronization point";
  std::string words = names[0];
  for (size_t i = 1; i < names.size(); ++i) words += (i + 1 < names.size() ? ", " : " and ") + names[i];
  return words;
}

std::string location_of(const RuleInput& input, const SyncPlace& place) {
  for (const SyncPlace::Function& function : place.functions) {
    const model::Thread& thread = input.process.threads[function.thread];
    if (auto line = model::users_line_of(input.run, thread, thread.calls[function.call]))
      return line->location();
  }
  const auto longest = std::ranges::max_element(place.functions, {}, &SyncPlace::Function::longest);
  return call_location(input.run, input.process, longest->thread, longest->call);
}

}  // namespace gpuwatch::advise
