// SPDX-License-Identifier: Apache-2.0
// Ranges and marks that programs and libraries report through NVTX v3, by its official injection: each module
// that has NVTX compiled in asks for InitializeInjectionNvtx2 at its first call and lets us fill in its table
// of callbacks. Where the source is off a call stays what it is without a tool: a load and a branch.
//
// One tool a process: where NVTX_INJECTION64_PATH names another, it has NVTX and we see nothing. To have
// both, GPUWATCH_NVTX_FORWARD names the other one: it is initialised first, and what it has put into a table
// is called after we have looked, with its own handles and range ids.
#include "hooks/nvtx/nvtx.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "hooks/core/evidence.h"
#include "hooks/core/operations.h"
#include "hooks/nvtx/names.h"
#include "hooks/nvtx/nvtx_api.h"
#include "hooks/nvtx/ranges.h"
#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/base/errno_guard.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/own_library.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::nvtx {
namespace {

// A shorter range is not recorded. What is explained with ranges are gaps of 10 us and more, and emit_nvtx
// makes a range for each operator.
constexpr uint64_t kThresholdNs = 5'000;
constinit std::atomic<uint64_t> g_threshold_ticks{0};  // 0: not known yet
constinit std::atomic<bool> g_is_used{false};
constinit std::atomic<bool> g_is_forwarding{false};
constinit std::atomic<RangeId> g_next_range{1};

// What another tool had put there, by callback; the same for all modules, or the callback is left to it.
#define GW_NVTX_RANGE(...)
#define GW_NVTX(module, id, name, ret, params, args) \
  using name##Function = ret params noexcept;        \
  constinit std::atomic<name##Function*> g_next_##name{nullptr};
#include "hooks/nvtx/nvtx.def"
#undef GW_NVTX
#undef GW_NVTX_RANGE

// --- recording

bool is_watched() noexcept {
  if (GW_LIKELY(record::is_recording())) return !record::is_quiet();
  return record::is_dormant() && !record::is_quiet() && begin_recording("nvtx");
}

// A handle is the name's address, or another tool's that we know the name of.
Name* name_of(Handle handle) noexcept {
  if (GW_LIKELY(!g_is_forwarding.load(std::memory_order_relaxed))) return static_cast<Name*>(handle);
  return associated(handle);
}

uint32_t message_of(const EventAttributes& event) noexcept {
  switch (event.message_type) {
    case kAscii:
      return text_id(event.message.ascii);
    case kUnicode:
      return text_id(event.message.unicode);
    case kRegistered:
      return id_of(name_of(event.message.registered));
    default:
      return 0;
  }
}

Event describe(Handle domain, const EventAttributes* attributes) noexcept {
  Event event;
  event.domain = id_of(name_of(domain));
  constexpr size_t kFirstVersionBytes = 48;  // of all versions of the struct so far
  if (!attributes || attributes->size < kFirstVersionBytes) return event;
  event.name = message_of(*attributes);
  event.category = attributes->category;
  if (event.category) event.category_name = id_of(category_name(domain, event.category));
  if (attributes->payload_type >= kUint64 && attributes->payload_type <= kFloat) {
    event.payload_type = static_cast<uint8_t>(attributes->payload_type);
    event.payload =
        attributes->payload_type <= kDouble ? attributes->payload.bits : attributes->payload.low_bits;
  }
  return event;
}
static_assert(sizeof(EventAttributes) == 48);

Event plain(uint32_t name) noexcept {
  Event event;
  event.name = name;
  return event;
}

static_assert(carries<trace::RangeDetail>(Op::nvtx_thread_range) &&
              carries<trace::RangeDetail>(Op::nvtx_process_range) &&
              carries<trace::RangeDetail>(Op::nvtx_mark));

void put(Op op, const OpenRange& range, uint64_t end, uint32_t thread) noexcept {
  const Event& event = range.event;
  if (!event.category && !event.payload_type && !thread)
    return record::span(id(op), range.begin, end, 0, event.domain, event.name);
  record::span(id(op), range.begin, end, 0, event.domain, event.name,
               trace::RangeDetail(event.payload, event.category, event.category_name, thread,
                                  event.payload_type, 0, 0));
}

// Not left to on_recording(): other threads record before that has come to us.
uint64_t threshold_ticks() noexcept {
  uint64_t ticks = g_threshold_ticks.load(std::memory_order_relaxed);
  if (GW_UNLIKELY(ticks == 0)) {
    ticks = base::ticks_of_ns(kThresholdNs);
    g_threshold_ticks.store(ticks, std::memory_order_relaxed);
  }
  return ticks;
}

void finish(Op op, const OpenRange& range, uint32_t thread) noexcept {
  const uint64_t now = base::ticks();
  if (now - range.begin < threshold_ticks()) return;
  put(op, range, now, thread);
}

// --- callbacks: what is noted of a call before the other tool, if there is one, gets it

template <class Text>
void see_mark(Text message) noexcept {
  if (!is_watched()) return;
  const uint64_t now = base::ticks();
  put(Op::nvtx_mark, {now, plain(text_id(message))}, now, 0);
}
void see_mark(Handle domain, const EventAttributes* attributes) noexcept {
  if (!is_watched()) return;
  const uint64_t now = base::ticks();
  put(Op::nvtx_mark, {now, describe(domain, attributes)}, now, 0);
}

int see_push(const Event& event) noexcept {
  return push(event, base::ticks());
}
int see_pop(uint32_t domain) noexcept {
  if (!is_watched()) return 0;
  OpenRange range;
  int depth = 0;
  if (pop(domain, &range, &depth)) finish(Op::nvtx_thread_range, range, 0);
  return depth;
}
void see_end(RangeId id) noexcept {
  if (!is_watched()) return;
  OpenRange range;
  uint32_t thread = 0;
  if (close(id, &range, &thread)) finish(Op::nvtx_process_range, range, thread);
}

// The range's id: the other tool's, or one of ours.
template <class Function, class... Arguments>
RangeId start(Function* next, const Event& event, Arguments... arguments) noexcept {
  const uint64_t now = base::ticks();
  const RangeId id = next ? next(arguments...) : g_next_range.fetch_add(1, std::memory_order_relaxed);
  if (id) open(id, event, now);
  return id;
}

template <class Function, class Text, class... Arguments>
Handle make_handle(Function* next, Text text, Arguments... arguments) noexcept {
  Name* name = keep(text);
  Handle handle = next ? next(arguments...) : name;
  if (g_is_forwarding.load(std::memory_order_relaxed)) associate(handle, name);
  return handle;
}

constexpr const void* kDefaultDomain = nullptr;

#define GW_NEXT(name) const auto next = g_next_##name.load(std::memory_order_relaxed)
#define GW_FORWARD(name, ...) \
  GW_NEXT(name);              \
  if (next) next(__VA_ARGS__)

void on_MarkEx(const EventAttributes* event) noexcept {
  see_mark(nullptr, event);
  GW_FORWARD(MarkEx, event);
}
void on_MarkA(const char* message) noexcept {
  see_mark(message);
  GW_FORWARD(MarkA, message);
}
void on_MarkW(const wchar_t* message) noexcept {
  see_mark(message);
  GW_FORWARD(MarkW, message);
}
void on_DomainMarkEx(Handle domain, const EventAttributes* event) noexcept {
  see_mark(domain, event);
  GW_FORWARD(DomainMarkEx, domain, event);
}

RangeId on_RangeStartEx(const EventAttributes* event) noexcept {
  GW_NEXT(RangeStartEx);
  if (!is_watched()) return next ? next(event) : 0;
  return start(next, describe(nullptr, event), event);
}
RangeId on_RangeStartA(const char* message) noexcept {
  GW_NEXT(RangeStartA);
  if (!is_watched()) return next ? next(message) : 0;
  return start(next, plain(text_id(message)), message);
}
RangeId on_RangeStartW(const wchar_t* message) noexcept {
  GW_NEXT(RangeStartW);
  if (!is_watched()) return next ? next(message) : 0;
  return start(next, plain(text_id(message)), message);
}
RangeId on_DomainRangeStartEx(Handle domain, const EventAttributes* event) noexcept {
  GW_NEXT(DomainRangeStartEx);
  if (!is_watched()) return next ? next(domain, event) : 0;
  return start(next, describe(domain, event), domain, event);
}
void on_RangeEnd(RangeId id) noexcept {
  see_end(id);
  GW_FORWARD(RangeEnd, id);
}
void on_DomainRangeEnd(Handle domain, RangeId id) noexcept {
  see_end(id);
  GW_FORWARD(DomainRangeEnd, domain, id);
}

int on_RangePushEx(const EventAttributes* event) noexcept {
  const int depth = is_watched() ? see_push(describe(nullptr, event)) : 0;
  GW_NEXT(RangePushEx);
  return next ? next(event) : depth;
}
int on_RangePushA(const char* message) noexcept {
  const int depth = is_watched() ? see_push(plain(text_id(message))) : 0;
  GW_NEXT(RangePushA);
  return next ? next(message) : depth;
}
int on_RangePushW(const wchar_t* message) noexcept {
  const int depth = is_watched() ? see_push(plain(text_id(message))) : 0;
  GW_NEXT(RangePushW);
  return next ? next(message) : depth;
}
int on_DomainRangePushEx(Handle domain, const EventAttributes* event) noexcept {
  const int depth = is_watched() ? see_push(describe(domain, event)) : 0;
  GW_NEXT(DomainRangePushEx);
  return next ? next(domain, event) : depth;
}
int on_RangePop() noexcept {
  const int depth = see_pop(0);
  GW_NEXT(RangePop);
  return next ? next() : depth;
}
int on_DomainRangePop(Handle domain) noexcept {
  const int depth = see_pop(id_of(name_of(domain)));
  GW_NEXT(DomainRangePop);
  return next ? next(domain) : depth;
}

void on_NameCategoryA(uint32_t category, const char* name) noexcept {
  name_category(kDefaultDomain, category, keep(name));
  GW_FORWARD(NameCategoryA, category, name);
}
void on_NameCategoryW(uint32_t category, const wchar_t* name) noexcept {
  name_category(kDefaultDomain, category, keep(name));
  GW_FORWARD(NameCategoryW, category, name);
}
void on_DomainNameCategoryA(Handle domain, uint32_t category, const char* name) noexcept {
  name_category(domain, category, keep(name));
  GW_FORWARD(DomainNameCategoryA, domain, category, name);
}
void on_DomainNameCategoryW(Handle domain, uint32_t category, const wchar_t* name) noexcept {
  name_category(domain, category, keep(name));
  GW_FORWARD(DomainNameCategoryW, domain, category, name);
}

void on_NameOsThreadA(uint32_t thread, const char* name) noexcept {
  name_thread(thread, keep(name));
  GW_FORWARD(NameOsThreadA, thread, name);
}
void on_NameOsThreadW(uint32_t thread, const wchar_t* name) noexcept {
  name_thread(thread, keep(name));
  GW_FORWARD(NameOsThreadW, thread, name);
}

Handle on_DomainRegisterStringA(Handle domain, const char* text) noexcept {
  GW_NEXT(DomainRegisterStringA);
  return make_handle(next, text, domain, text);
}
Handle on_DomainRegisterStringW(Handle domain, const wchar_t* text) noexcept {
  GW_NEXT(DomainRegisterStringW);
  return make_handle(next, text, domain, text);
}
Handle on_DomainCreateA(const char* name) noexcept {
  GW_NEXT(DomainCreateA);
  return make_handle(next, name, name);
}
Handle on_DomainCreateW(const wchar_t* name) noexcept {
  GW_NEXT(DomainCreateW);
  return make_handle(next, name, name);
}

// --- set-up

}  // namespace
}  // namespace gpuwatch::hooks::nvtx

extern "C" int gpuwatch_initialize_nvtx(gpuwatch::hooks::nvtx::GetExportTable get_table);

namespace gpuwatch::hooks::nvtx {
namespace {

Initialize find_other_tool() noexcept {
  const char* path = runtime::config().nvtx_forward;
  if (!path || !dlopen || !dlsym) return nullptr;
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  void* found = library ? dlsym(library, "InitializeInjectionNvtx2") : nullptr;
  if (dlerror) dlerror();  // a job must not find our look-ups in its next dlerror()
  if (!found || found == reinterpret_cast<void*>(&gpuwatch_initialize_nvtx)) return nullptr;
  return reinterpret_cast<Initialize>(found);
}

// A module's pointers to its callbacks, and what NVTX itself had put there.
class Tables {
 public:
  void read(const Callbacks& callbacks, int module) noexcept {
    if (!callbacks.get_module_table(module, &table_, &count_) || !table_) count_ = 0;
    if (count_ > kMost) count_ = kMost;
    for (unsigned i = 0; i < count_; ++i) before_[i] = table_[i] ? *table_[i] : nullptr;
  }

  template <class Function>
  void take(unsigned at, Function* ours, std::atomic<Function*>& next) noexcept {
    if (at >= count_ || !table_[at]) return;
    const Callback there = *table_[at];
    auto* const other = there == before_[at] ? nullptr : reinterpret_cast<Function*>(there);
    Function* known = nullptr;
    if (other && !next.compare_exchange_strong(known, other) && known != other) return;
    *table_[at] = reinterpret_cast<Callback>(ours);
  }

 private:
  static constexpr unsigned kMost = 32;
  CallbackTable table_ = nullptr;
  unsigned count_ = 0;
  Callback before_[kMost] = {};
};

int initialize(GetExportTable get_table) noexcept {
  const Initialize other = find_other_tool();
  if (!runtime::config().is_on(runtime::Source::kNvtx) || runtime::config().disabled)
    return other ? other(get_table) : 0;
  const auto* callbacks = static_cast<const Callbacks*>(get_table(kCallbacksTable));
  if (!callbacks || callbacks->struct_size < sizeof(Callbacks)) return other ? other(get_table) : 0;
  Tables core, domains;
  core.read(*callbacks, kCoreModule);
  domains.read(*callbacks, kDomainModule);
  if (other && other(get_table)) g_is_forwarding.store(true, std::memory_order_relaxed);
  const auto tables_of = [&](int module) noexcept -> Tables& {
    return module == kCoreModule ? core : domains;
  };
#define GW_NVTX_RANGE(...)
#define GW_NVTX(module, id, name, ...) tables_of(module).take(id, on_##name, g_next_##name);
#include "hooks/nvtx/nvtx.def"
#undef GW_NVTX
#undef GW_NVTX_RANGE
  if (!g_is_used.exchange(true) && record::is_recording())
    record::put_source("nvtx", {trace::SourceState::On});
  return 1;
}

}  // namespace

void on_recording() noexcept {
  if (!runtime::config().is_on(runtime::Source::kNvtx)) {
    record::put_source("nvtx", {trace::SourceState::Off});
  } else if (g_is_used.load(std::memory_order_relaxed)) {
    record::put_source("nvtx", {trace::SourceState::On});
    write_thread_names();
  } else if (const char* holder = runtime::other_tool_in("NVTX_INJECTION64_PATH")) {
    base::Text<256> text;
    text.add("held by ").add(holder).add(" (NVTX_INJECTION64_PATH): ranges are not recorded");
    record::put_source("nvtx", {trace::SourceState::Held, text.c_str(), holder});
  }
}

}  // namespace gpuwatch::hooks::nvtx

using namespace gpuwatch::hooks;

extern "C" GW_EXPORT int gpuwatch_initialize_nvtx(nvtx::GetExportTable get_table) {
  const gpuwatch::base::ErrnoGuard keep_errno;
  return nvtx::initialize(get_table);
}

// On the thread and in the middle of a module's first call into NVTX; 0 makes that module's calls do nothing.
extern "C" GW_EXPORT int InitializeInjectionNvtx2(nvtx::GetExportTable get_table) {
  const auto own = reinterpret_cast<const void*>(&gpuwatch_initialize_nvtx);
  void* first = gpuwatch::runtime::find_in_preloaded_copy("gpuwatch_initialize_nvtx", own);
  return first ? reinterpret_cast<nvtx::Initialize>(first)(get_table) : gpuwatch_initialize_nvtx(get_table);
}
