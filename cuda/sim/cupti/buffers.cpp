// SPDX-License-Identifier: Apache-2.0
#include "buffers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/config.h"
#include "record_layout.h"

namespace gpuwatch::sim {

namespace {

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
  std::atomic<bool> buffers_come_zeroed{false};
  std::atomic<bool> thread_buffers{cupti_version() >= kCupti13_0};
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
  static auto* const shared = new LaneOwner;
  if (!delivery().thread_buffers) return *shared->lane;
  thread_local LaneOwner t_owner;
  return *t_owner.lane;
}

// Without the lane's lock: this is the client's code.
bool request_buffer(Buffer& buffer) {
  const auto request = delivery().request.load();
  if (!request) return false;
  buffer = {};
  request(&buffer.data, &buffer.size_bytes, &buffer.max_records);
  if (buffer.data == nullptr || buffer.size_bytes < kLargestRecordBytes) return false;
  if (!delivery().buffers_come_zeroed) {
    std::memset(buffer.data, 0, buffer.size_bytes);
  } else if (std::any_of(buffer.data, buffer.data + buffer.size_bytes, [](uint8_t b) { return b != 0; })) {
    std::fprintf(stderr, "[gpuwatch simulated device] a CUPTI buffer that was promised zeroed is not\n");
  }
  return true;
}

// What the device has not finished has no times.
void forget_times(Held& held) {
  const auto kind = reinterpret_cast<const CUpti_Activity*>(held.bytes)->kind;
  if (const size_t at = start_offset(kind)) std::memset(held.bytes + at, 0, 2 * sizeof(uint64_t));
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
        if (it->complete_at_ns > now) forget_times(*it);
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

// Names that live as long as the callback only: who keeps the pointer instead of the name
// reads question marks.
class LentNames {
 public:
  explicit LentNames(const Buffer& buffer) {
    if (!config().cupti_names_expire) return;
    for (size_t at = 0; at < buffer.used_bytes;) {
      auto* record = reinterpret_cast<CUpti_Activity*>(buffer.data + at);
      if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
          record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        auto* name =
            reinterpret_cast<const char**>(buffer.data + at + offsetof(CUpti_ActivityKernel10, name));
        names_.push_back(std::make_unique<std::string>(*name));
        *name = names_.back()->c_str();
      }
      at += record_size(record->kind);
    }
  }
  ~LentNames() {
    for (auto& name : names_) {
      std::fill(name->begin(), name->end(), '?');
      (void)name.release();  // leaked: a pointer that was kept must show what it did, not crash
    }
  }

 private:
  std::vector<std::unique_ptr<std::string>> names_;
};

void hand_over(std::vector<Buffer>& buffers) {
  const auto complete = delivery().complete.load();
  for (const Buffer& b : buffers) {
    if (!complete) continue;
    const LentNames names(b);
    complete(nullptr, 0, b.data, b.size_bytes, b.used_bytes);
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

void put_record_bytes(const void* record, size_t known_bytes, Ns complete_at_ns) {
  const size_t size_bytes = record_size(static_cast<const CUpti_Activity*>(record)->kind);
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
  std::memcpy(held.bytes, record, std::min(size_bytes, known_bytes));
  // Fields of a later release: anything but what a reader of today's layout would take for its own.
  if (size_bytes > known_bytes) std::memset(held.bytes + known_bytes, 0xa5, size_bytes - known_bytes);
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

void use_thread_buffers(bool on) {
  delivery().thread_buffers = on;
}

void expect_zeroed_buffers(bool on) {
  delivery().buffers_come_zeroed = on;
}

}  // namespace gpuwatch::sim
