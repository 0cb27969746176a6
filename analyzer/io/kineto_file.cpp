// SPDX-License-Identifier: Apache-2.0
#include "analyzer/io/kineto_file.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "analyzer/io/gzip_text.h"
#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::io {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr int64_t kFar = int64_t{1} << 61;  // times are kept within it, so that two can be added
constexpr size_t kMostDevices = 1024;
constexpr size_t kNameBytes = 4096;  // of a name that is kept; a kernel's template arguments may be longer

// What a number may stand for: Kineto has written ids and times as numbers and as strings.
std::string_view number_text(ondemand::value value) {
  std::string_view text = value.raw_json_token();
  const auto is_around = [](char c) { return c == '"' || c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!text.empty() && is_around(text.back())) text.remove_suffix(1);
  while (!text.empty() && is_around(text.front())) text.remove_prefix(1);
  return text;
}

std::optional<int64_t> integer(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

template <class Number>
Number in_range(std::optional<int64_t> number, Number otherwise) {
  return number && std::in_range<Number>(*number) ? static_cast<Number>(*number) : otherwise;
}

// Microseconds with decimals, to the nanosecond: a double has 0.25 us left where 1.7e15 us have passed since
// 1970.
std::optional<int64_t> microseconds_as_ns(std::string_view text) {
  const size_t point = text.find('.');
  const std::string_view fraction = point == std::string_view::npos ? "" : text.substr(point + 1);
  const auto whole = integer(text.substr(0, point));
  const bool has_digits_only = fraction.find_first_not_of("0123456789") == std::string_view::npos;
  if (whole && has_digits_only && std::abs(*whole) < kFar / 1000) {
    int64_t ns = 0, unit = 100;
    for (size_t i = 0; i < std::min<size_t>(fraction.size(), 3); ++i, unit /= 10)
      ns += (fraction[i] - '0') * unit;
    return *whole * 1000 + (text.front() == '-' ? -ns : ns);
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || !(std::abs(number) < double(kFar) / 1000)) return std::nullopt;
  return static_cast<int64_t>(number * 1000);
}

struct CategoryName {
  std::string_view name;
  KinetoCategory category;
};
// Up to 2022 Kineto wrote the second name of each. PyTorch's loader and its optimizers made their marks as
// operators before there were annotations.
constexpr CategoryName kCategoryNames[] = {
    {"kernel", KinetoCategory::kKernel},        {"Kernel", KinetoCategory::kKernel},
    {"gpu_memcpy", KinetoCategory::kMemcpy},    {"Memcpy", KinetoCategory::kMemcpy},
    {"gpu_memset", KinetoCategory::kMemset},    {"Memset", KinetoCategory::kMemset},
    {"cuda_sync", KinetoCategory::kDeviceSync}, {"cuda_runtime", KinetoCategory::kCudaCall},
    {"cuda_driver", KinetoCategory::kCudaCall}, {"hip_runtime", KinetoCategory::kCudaCall},
    {"Runtime", KinetoCategory::kCudaCall},     {"user_annotation", KinetoCategory::kAnnotation}};
constexpr std::string_view kOperatorCategories[] = {"cpu_op", "Operator"};
constexpr std::string_view kMarks[] = {"enumerate(DataLoader)#", "Optimizer.step#", "ProfilerStep#"};

bool is_operator(std::string_view category) {
  return std::ranges::find(kOperatorCategories, category) != std::end(kOperatorCategories);
}

bool is_mark(std::string_view name) {
  return std::ranges::any_of(kMarks, [&](std::string_view mark) { return name.starts_with(mark); });
}

bool is_read(std::string_view category) {
  return is_operator(category) ||
         std::ranges::find(kCategoryNames, category, &CategoryName::name) != std::end(kCategoryNames);
}

KinetoCategory category_of(std::string_view category, std::string_view name) {
  const auto* known = std::ranges::find(kCategoryNames, category, &CategoryName::name);
  if (known != std::end(kCategoryNames)) return known->category;
  if (!is_operator(category)) return KinetoCategory::kOther;
  return is_mark(name) ? KinetoCategory::kAnnotation : KinetoCategory::kOperator;
}

struct RawEvent {
  std::string_view phase, category, name, thread_name;
  std::optional<int64_t> begin_ns, length_ns, process, thread;
  bool has_fraction = false;
  KinetoEvent event;
  std::optional<int64_t> device, stream;
};

class Reader {
 public:
  Reader(const std::string& path, const Text& text) : path_(path), text_(text) {
    trace_.file_bytes = text.file_bytes;
    trace_.json_bytes = text.bytes.size();
  }
  KinetoTrace read();

 private:
  bool is_cut_off(simdjson::error_code error) const;
  [[noreturn]] void fail(simdjson::error_code error);
  void check(simdjson::error_code error) {
    if (error != simdjson::SUCCESS) fail(error);
  }
  // handle(key, value) for each field, until it returns false.
  template <class Handle>
  void each_field(ondemand::object object, Handle handle) {
    for (auto field : object) {
      std::string_view key;
      check(field.unescaped_key().get(key));
      ondemand::value value;
      check(field.value().get(value));
      if (!handle(key, value)) return;
    }
  }
  void read_root_field(std::string_view key, ondemand::value value);
  void read_distributed(ondemand::object object);
  void read_devices(ondemand::array devices);
  void read_events(ondemand::array events);
  RawEvent read_event(ondemand::object object);
  bool read_event_field(std::string_view key, ondemand::value value, RawEvent& raw);
  void read_argument(std::string_view key, ondemand::value value, RawEvent& raw);
  void keep(const RawEvent& raw);
  void keep_metadata(const RawEvent& raw);
  uint32_t name_id(std::string_view name);
  bool is_object(ondemand::value value);
  std::string_view string_of(ondemand::value value);
  static std::array<uint32_t, 3> triple(ondemand::value value);

  const std::string& path_;
  const Text& text_;
  ondemand::document document_;
  KinetoTrace trace_;
  std::unordered_map<std::string_view, uint32_t> ids_;  // of names; views into the parser's strings
  bool is_parsed_ = false, has_events_ = false, has_fractions_ = false;
};

bool Reader::is_cut_off(simdjson::error_code error) const {
  const size_t last = text_.bytes.find_last_not_of(" \t\r\n");
  const bool is_closed = last != std::string::npos && (text_.bytes[last] == '}' || text_.bytes[last] == ']');
  return error == simdjson::UNCLOSED_STRING || (error == simdjson::INCOMPLETE_ARRAY_OR_OBJECT && !is_closed);
}

void Reader::fail(simdjson::error_code error) {
  if (is_cut_off(error))
    throw UserError(
        fmt::format("{} is no whole JSON document: it is cut off after {} bytes of text; export it again, or "
                    "copy all of it",
                    printable(path_), text_.bytes.size()));
  const char* at = nullptr;
  const bool is_known = is_parsed_ && document_.current_location().get(at) == simdjson::SUCCESS &&
                        at >= text_.bytes.data() && at <= text_.bytes.data() + text_.bytes.size();
  throw UserError(fmt::format(
      "{} is no whole JSON document ({}{}); export it again, or copy all of it", printable(path_),
      printable(simdjson::error_message(error)),
      is_known ? fmt::format(", at byte {} of {}", at - text_.bytes.data(), text_.bytes.size()) : ""));
}

std::string_view Reader::string_of(ondemand::value value) {
  std::string_view text;
  ondemand::json_type type;
  check(value.type().get(type));
  if (type == ondemand::json_type::string) check(value.get_string().get(text));
  return text;
}

bool Reader::is_object(ondemand::value value) {
  ondemand::json_type type;
  check(value.type().get(type));
  return type == ondemand::json_type::object;
}

uint32_t Reader::name_id(std::string_view name) {
  const auto [known, is_new] = ids_.try_emplace(name, static_cast<uint32_t>(trace_.names.size()));
  if (is_new) trace_.names.emplace_back(name.substr(0, kNameBytes));
  return known->second;
}

std::array<uint32_t, 3> Reader::triple(ondemand::value value) {
  std::array<uint32_t, 3> numbers{};
  ondemand::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) return numbers;
  size_t i = 0;
  for (auto element : array) {
    ondemand::value number;
    if (i == numbers.size() || element.get(number) != simdjson::SUCCESS) break;
    numbers[i++] = in_range<uint32_t>(integer(number_text(number)), 0);
  }
  return numbers;
}

void Reader::read_argument(std::string_view key, ondemand::value value, RawEvent& raw) {
  KinetoEvent& event = raw.event;
  if (key == "correlation") {
    event.correlation = in_range<uint32_t>(integer(number_text(value)), 0);
  } else if (key == "bytes") {
    event.bytes = in_range<uint64_t>(integer(number_text(value)), 0);
  } else if (key == "device") {
    raw.device = integer(number_text(value));
  } else if (key == "context") {
    event.context = in_range<uint32_t>(integer(number_text(value)), 0);
  } else if (key == "stream") {
    raw.stream = integer(number_text(value));
  } else if (key == "grid") {
    event.grid = triple(value);
  } else if (key == "block") {
    event.block = triple(value);
  } else if (key == "name") {  // of a process or a thread
    raw.thread_name = string_of(value);
  }
}

RawEvent Reader::read_event(ondemand::object object) {
  RawEvent raw;
  each_field(object,
             [&](std::string_view key, ondemand::value value) { return read_event_field(key, value, raw); });
  return raw;
}

// False once the rest of the event is of no use.
bool Reader::read_event_field(std::string_view key, ondemand::value value, RawEvent& raw) {
  if (key == "ph") {
    raw.phase = string_of(value);
    return raw.phase == "X" || raw.phase == "M";  // most of the rest are arrows between events
  }
  if (key == "cat") {
    raw.category = string_of(value);
    return is_read(raw.category);
  }
  if (key == "name") {
    raw.name = string_of(value);
    return true;
  }
  if (key == "ts") {
    const std::string_view text = number_text(value);
    raw.begin_ns = microseconds_as_ns(text);
    raw.has_fraction = text.find('.') != std::string_view::npos;
  } else if (key == "dur") {
    raw.length_ns = microseconds_as_ns(number_text(value));
    return !is_operator(raw.category) || is_mark(raw.name) ||
           raw.length_ns >= kLongOperatorNs;  // most of a trace
  } else if (key == "pid") {
    raw.process = integer(number_text(value));
  } else if (key == "tid") {
    raw.thread = integer(number_text(value));
  } else if (ondemand::object arguments; key == "args" && !is_operator(raw.category) && is_object(value)) {
    check(value.get_object().get(arguments));
    each_field(arguments, [&](std::string_view argument, ondemand::value of_argument) {
      read_argument(argument, of_argument, raw);
      return true;
    });
  }
  return true;
}

void Reader::keep_metadata(const RawEvent& raw) {
  if (raw.thread_name.empty() || !raw.process || !raw.thread) return;
  if (raw.name == "thread_name")
    trace_.thread_names.emplace(*raw.thread, raw.thread_name.substr(0, kNameBytes));
  if (raw.name == "process_name" && trace_.process_name.empty())
    trace_.process_name = raw.thread_name.substr(0, kNameBytes);
}

void Reader::keep(const RawEvent& raw) {
  if (raw.phase == "M") return keep_metadata(raw);
  KinetoEvent event = raw.event;
  event.category = raw.phase == "X" ? category_of(raw.category, raw.name) : KinetoCategory::kOther;
  if (event.category == KinetoCategory::kOther) return;
  if (event.category == KinetoCategory::kOperator && raw.length_ns.value_or(0) < kLongOperatorNs) return;
  if (!raw.begin_ns || !raw.length_ns) {
    ++trace_.events_without_time;
    return;
  }
  has_fractions_ |= raw.has_fraction;
  event.begin_ns = *raw.begin_ns;
  event.length_ns = std::max<int64_t>(0, *raw.length_ns);
  event.thread = raw.thread.value_or(0);
  event.device = in_range<uint32_t>(raw.device ? raw.device : raw.process, 0);
  // -1 stands for all of a context's.
  event.stream = static_cast<uint32_t>((raw.stream ? raw.stream : raw.thread).value_or(0));
  event.name = name_id(raw.name);
  if (event.category == KinetoCategory::kCudaCall || event.category == KinetoCategory::kAnnotation)
    trace_.pid = trace_.pid ? trace_.pid : in_range<uint32_t>(raw.process, 0);
  trace_.events.push_back(event);
}

void Reader::read_events(ondemand::array events) {
  has_events_ = true;
  for (auto element : events) {
    ondemand::value value;
    check(element.get(value));
    ++trace_.events_read;
    if (!is_object(value)) continue;
    ondemand::object object;
    check(value.get_object().get(object));
    keep(read_event(object));
  }
}

void Reader::read_distributed(ondemand::object object) {
  each_field(object, [this](std::string_view key, ondemand::value value) {
    if (key == "rank") trace_.rank = in_range<int>(integer(number_text(value)), -1);
    if (key == "world_size") trace_.world_size = in_range<int>(integer(number_text(value)), -1);
    if (key == "nccl_version") trace_.nccl_version = string_of(value).substr(0, kNameBytes);
    return true;
  });
}

void Reader::read_devices(ondemand::array devices) {
  for (auto element : devices) {
    ondemand::object object;
    if (element.get_object().get(object) != simdjson::SUCCESS) continue;
    KinetoDevice device;
    each_field(object, [&](std::string_view key, ondemand::value value) {
      if (key == "id") device.id = in_range<uint32_t>(integer(number_text(value)), 0);
      if (key == "name") device.name = string_of(value).substr(0, kNameBytes);
      if (key == "gcnArchName") device.architecture = string_of(value).substr(0, kNameBytes);
      if (key == "computeMajor") device.compute_major = in_range<int>(integer(number_text(value)), 0);
      if (key == "computeMinor") device.compute_minor = in_range<int>(integer(number_text(value)), 0);
      if (key == "numSms") device.multiprocessors = in_range<int>(integer(number_text(value)), 0);
      if (key == "totalGlobalMem") device.memory_bytes = in_range<uint64_t>(integer(number_text(value)), 0);
      return true;
    });
    if (trace_.devices.size() < kMostDevices) trace_.devices.push_back(std::move(device));
  }
}

void Reader::read_root_field(std::string_view key, ondemand::value value) {
  ondemand::json_type type;
  check(value.type().get(type));
  const bool is_array = type == ondemand::json_type::array, is_object = type == ondemand::json_type::object;
  ondemand::array array;
  ondemand::object object;
  if (key == "traceEvents" && is_array) {
    check(value.get_array().get(array));
    read_events(array);
  } else if (key == "deviceProperties" && is_array) {
    check(value.get_array().get(array));
    read_devices(array);
  } else if (key == "distributedInfo" && is_object) {
    check(value.get_object().get(object));
    read_distributed(object);
  } else if (key == "baseTimeNanoseconds") {
    trace_.base_ns = std::clamp(integer(number_text(value)).value_or(0), -kFar, kFar);
  } else if (key == "host_name") {
    trace_.host = string_of(value).substr(0, kNameBytes);
  } else if (key == "cuda_runtime_version") {
    trace_.runtime_version = in_range<int>(integer(number_text(value)), 0);
  } else if (key == "cuda_driver_version") {
    trace_.driver_version = in_range<int>(integer(number_text(value)), 0);
  }
}

KinetoTrace Reader::read() {
  ondemand::parser parser;
  const simdjson::padded_string_view view(text_.bytes.data(), text_.bytes.size(), text_.bytes.capacity());
  check(parser.iterate(view).get(document_));
  is_parsed_ = true;
  ondemand::json_type type;
  check(document_.type().get(type));
  if (type == ondemand::json_type::array) {
    ondemand::array events;
    check(document_.get_array().get(events));
    read_events(events);
  } else if (type == ondemand::json_type::object) {
    ondemand::object root;
    check(document_.get_object().get(root));
    each_field(root, [this](std::string_view key, ondemand::value value) {
      read_root_field(key, value);
      return true;
    });
  }
  if (!has_events_)
    throw UserError(
        fmt::format("{} has no \"traceEvents\": it is no trace of torch.profiler; name one that "
                    "export_chrome_trace() wrote",
                    printable(path_)));
  trace_.resolution_ns = has_fractions_ ? 1 : 1000;
  return std::move(trace_);
}

}  // namespace

bool KinetoDevice::is_amd() const {
  return architecture.starts_with("gfx") || name.starts_with("gfx") ||
         name.find("AMD") != std::string::npos || name.find("Radeon") != std::string::npos;
}

bool is_kineto_path(const std::string& path) {
  return path.ends_with(".json") || path.ends_with(".json.gz");
}

KinetoTrace read_kineto(const std::string& path) {
  const Text text = read_text(path);
  return Reader(path, text).read();
}

}  // namespace gpuwatch::io
