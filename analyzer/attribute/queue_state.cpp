// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/queue_state.h"

#include <algorithm>
#include <set>

namespace gpuwatch::attribute {
namespace {

using model::HostCall;
using model::Ns;
using trace::OpClass;

constexpr uint32_t kUnknownStream = 0xffffffff;

struct QueueEvent {
  Ns time;
  uint32_t thread;
  uint32_t call;
  bool gives_work;  // at a call's begin; otherwise a wait, at its end
};

std::vector<QueueEvent> queue_events(const ProcessView& view) {
  std::vector<QueueEvent> events;
  for (uint32_t thread = 0; thread < view.process().threads.size(); ++thread) {
    const std::vector<HostCall>& calls = view.thread(thread).calls;
    for (uint32_t i = 0; i < calls.size(); ++i) {
      if (enqueues(calls[i].op_class)) events.push_back({calls[i].begin, thread, i, true});
      if (calls[i].op_class == OpClass::Sync) events.push_back({calls[i].end, thread, i, false});
    }
  }
  std::sort(events.begin(), events.end(),
            [](const QueueEvent& a, const QueueEvent& b) { return a.time < b.time; });
  return events;
}

uint32_t stream_of(const ProcessView& view, const QueueEvent& event) {
  return model::stream_of(view.thread(event.thread), view.call(event.thread, event.call))
      .value_or(kUnknownStream);
}

bool is_device_wide(const ProcessView& view, const QueueEvent& event) {
  const std::string& name = view.run().operations[view.call(event.thread, event.call).operation].name;
  return name.find("DeviceSynchronize") != std::string::npos ||
         name.find("CtxSynchronize") != std::string::npos;
}

bool is_stream_wide(const ProcessView& view, const QueueEvent& event) {
  const std::string& name = view.run().operations[view.call(event.thread, event.call).operation].name;
  return name.find("StreamSynchronize") != std::string::npos;
}

}  // namespace

std::vector<EmptyQueue> empty_queues(const ProcessView& view) {
  std::vector<EmptyQueue> result;
  std::set<uint32_t> busy_streams;
  Ns emptied = 0;
  bool is_empty = false;
  for (const QueueEvent& event : queue_events(view)) {
    if (event.gives_work) {
      if (is_empty && event.time > emptied) result.push_back({{emptied, event.time}, event.thread});
      is_empty = false;
      busy_streams.insert(stream_of(view, event));
      continue;
    }
    if (is_device_wide(view, event)) {
      busy_streams.clear();
    } else if (is_stream_wide(view, event) && stream_of(view, event) != kUnknownStream) {
      busy_streams.erase(stream_of(view, event));
    }
    if (busy_streams.empty() && !is_empty) {
      is_empty = true;
      emptied = event.time;
    }
  }
  return result;
}

}  // namespace gpuwatch::attribute
