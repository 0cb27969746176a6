// SPDX-License-Identifier: Apache-2.0
#include "buffers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/config.h"

namespace gpuwatch::sim {

namespace {

constexpr size_t kLargestRecordBytes = sizeof(CUpti_ActivityKernel10);
constexpr size_t kSettleEvery = 64;

struct Held {
  Ns complete_at_ns;
  uint32_t size_bytes;
  alignas(8) uint8_t bytes[kLargestRecordBytes];
};

struct Buffer {
  uint8_t* data = nullptr;
  size_t size_bytes = 0;
  size_t used_bytes = 0;
  size_t max_records = 0;  // 0: as many as fit
  size_t records = 0;

  bool takes(size_t bytes) const {
    return used_bytes + bytes <= size_bytes && (max_records == 0 || records < max_records);
  }
  void add(const void* record, size_t bytes) {
    std::memcpy(data + used_bytes, record, bytes);
    used_bytes += bytes;
    ++records;
  }
};

// What one thread has produced.
struct Lane {
  std::mutex mutex;
  std::vector<Held> held;
  size_t held_bytes = 0;
  size_t since_settled = 0;
  std::vector<Buffer> open;  // front first
  std::vector<Buffer> full;
  std::atomic<bool> thread_ended{false};

  size_t room_bytes() const {
    size_t room = 0;
    for (const Buffer& b : open) room += b.size_bytes - b.used_bytes;
    return room;
  }
};

struct Delivery {
  std::mutex mutex;
  std::vector<std::shared_ptr<Lane>> lanes;
  bool worker_running = false;
  std::condition_variable worker_wake;
  std::atomic<CUpti_BuffersCallbackRequestFunc> request{nullptr};
  std::atomic<CUpti_BuffersCallbackCompleteFunc> complete{nullptr};
  std::atomic<uint32_t> flush_period_ms{0};
  std::atomic<size_t> dropped{0};
};

Delivery& delivery() {
  static Delivery* instance = new Delivery;
  return *instance;
}

struct LaneOwner {
  std::shared_ptr<Lane> lane = std::make_shared<Lane>();
  LaneOwner() {
    std::lock_guard lock(delivery().mutex);
    delivery().lanes.push_back(lane);
  }
  ~LaneOwner() { lane->thread_ended = true; }
};

Lane& my_lane() {
  thread_local LaneOwner t_owner;
  return *t_owner.lane;
}

// Without the lane's lock: this is the client's code.
bool request_buffer(Buffer& buffer) {
  const auto request = delivery().request.load();
  if (!request) return false;
  buffer = {};
  request(&buffer.data, &buffer.size_bytes, &buffer.max_records);
  return buffer.data != nullptr && buffer.size_bytes >= kLargestRecordBytes;
}

// Moves complete records into the open buffers. Records that find no room stay.
void settle(Lane& lane, Ns now, bool forced) {
  lane.since_settled = 0;
  auto keep = lane.held.begin();
  for (auto it = lane.held.begin(); it != lane.held.end(); ++it) {
    bool moved = false;
    while ((forced || it->complete_at_ns <= now) && !lane.open.empty() && !moved) {
      Buffer& front = lane.open.front();
      if (front.takes(it->size_bytes)) {
        front.add(it->bytes, it->size_bytes);
        lane.held_bytes -= it->size_bytes;
        moved = true;
      } else {
        lane.full.push_back(front);
        lane.open.erase(lane.open.begin());
      }
    }
    if (moved) continue;
    if (keep != it) *keep = *it;
    ++keep;
  }
  lane.held.erase(keep, lane.held.end());
}

bool has_complete(const Lane& lane, Ns now, bool forced) {
  return std::any_of(lane.held.begin(), lane.held.end(),
                     [&](const Held& h) { return forced || h.complete_at_ns <= now; });
}

void hand_over(std::vector<Buffer>& buffers) {
  const auto complete = delivery().complete.load();
  for (const Buffer& b : buffers) {
    if (complete) complete(nullptr, 0, b.data, b.size_bytes, b.used_bytes);
  }
  buffers.clear();
}

std::vector<std::shared_ptr<Lane>> all_lanes() {
  std::lock_guard lock(delivery().mutex);
  return delivery().lanes;
}

void flush_lane(Lane& lane, bool forced) {
  std::vector<Buffer> out;
  const Ns now = now_ns();
  for (;;) {
    {
      std::lock_guard lock(lane.mutex);
      settle(lane, now, forced);
      out.insert(out.end(), lane.full.begin(), lane.full.end());
      lane.full.clear();
      if (!has_complete(lane, now, forced)) {
        for (Buffer& b : lane.open) {
          if (b.used_bytes > 0 || lane.thread_ended || forced) out.push_back(b);
        }
        std::erase_if(lane.open,
                      [&](const Buffer& b) { return b.used_bytes > 0 || lane.thread_ended || forced; });
        break;
      }
    }
    Buffer more;
    if (!request_buffer(more)) break;
    std::lock_guard lock(lane.mutex);
    lane.open.push_back(more);
  }
  hand_over(out);
}

void hand_over_full_buffers() {
  for (const auto& lane : all_lanes()) {
    std::vector<Buffer> out;
    {
      std::lock_guard lock(lane->mutex);
      settle(*lane, now_ns(), false);
      out.swap(lane->full);
    }
    hand_over(out);
  }
}

void forget_ended_threads() {
  std::lock_guard lock(delivery().mutex);
  std::erase_if(delivery().lanes, [](const std::shared_ptr<Lane>& lane) {
    std::lock_guard lane_lock(lane->mutex);
    return lane->thread_ended && lane->held.empty() && lane->open.empty() && lane->full.empty();
  });
}

void run_worker() {
  for (;;) {
    const uint32_t period_ms = delivery().flush_period_ms;
    const auto period = period_ms ? std::chrono::nanoseconds(std::chrono::milliseconds(period_ms))
                                  : std::chrono::nanoseconds(config().cupti_worker_period_ns);
    std::this_thread::sleep_for(period);
    hand_over_full_buffers();
    forget_ended_threads();
  }
}

}  // namespace

void put_record_bytes(const void* record, size_t size_bytes, Ns complete_at_ns) {
  Lane& lane = my_lane();
  bool room;
  {
    std::lock_guard lock(lane.mutex);
    room = lane.room_bytes() >= lane.held_bytes + size_bytes + kLargestRecordBytes;
  }
  Buffer more;
  const bool got = !room && request_buffer(more);
  if (!room && !got) {
    delivery().dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::lock_guard lock(lane.mutex);
  if (got) lane.open.push_back(more);
  Held& held = lane.held.emplace_back();
  held.complete_at_ns = complete_at_ns;
  held.size_bytes = static_cast<uint32_t>(size_bytes);
  std::memcpy(held.bytes, record, size_bytes);
  lane.held_bytes += size_bytes;
  if (++lane.since_settled >= kSettleEvery) settle(lane, now_ns(), false);
}

void set_buffer_callbacks(CUpti_BuffersCallbackRequestFunc request,
                          CUpti_BuffersCallbackCompleteFunc complete) {
  Delivery& d = delivery();
  d.complete = complete;
  d.request = request;
  std::lock_guard lock(d.mutex);
  if (d.worker_running) return;
  d.worker_running = true;
  std::thread(run_worker).detach();
}

bool has_buffer_callbacks() {
  return delivery().request.load() != nullptr;
}

void flush_records(bool forced) {
  for (const auto& lane : all_lanes()) flush_lane(*lane, forced);
  forget_ended_threads();
}

void set_flush_period_ms(uint32_t period_ms) {
  delivery().flush_period_ms = period_ms;
}

size_t take_dropped_count() {
  return delivery().dropped.exchange(0);
}

size_t record_size(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace2);
    default:
      return 0;
  }
}

}  // namespace gpuwatch::sim
