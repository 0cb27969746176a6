// SPDX-License-Identifier: Apache-2.0
#include "truth_log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "config.h"

namespace gpuwatch::sim {

namespace {

constexpr size_t kBufferBytes = 32 << 10;
constexpr size_t kLineBytes = 4 << 10;

void write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, data, size);
    if (n <= 0) return;
    data += n;
    size -= static_cast<size_t>(n);
  }
}

// Text of one thread. The lock is free except while the process exits.
struct ThreadBuffer {
  std::mutex mutex;
  size_t used = 0;
  char text[kBufferBytes];
};

class Line {
 public:
  explicit Line(const char* type) { put("{\"type\":\"").put(type).put("\""); }

  Line& number(const char* key, int64_t value) {
    put(",\"").put(key).put("\":");
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    return put({digits, static_cast<size_t>(end - digits)});
  }
  Line& text(const char* key, std::string_view value) {
    put(",\"").put(key).put("\":\"");
    for (char c : value) {
      if (c == '\n') {
        put("\\n");
      } else if (static_cast<unsigned char>(c) >= 0x20) {
        if (c == '"' || c == '\\') put("\\");
        put({&c, 1});
      }
    }
    return put("\"");
  }
  std::string_view text() const { return {bytes_, used_}; }
  std::string_view finish() {
    put("}\n");
    return text();
  }

 private:
  Line& put(std::string_view s) {
    const size_t n = s.size() < sizeof bytes_ - 8 - used_ ? s.size() : sizeof bytes_ - 8 - used_;
    std::memcpy(bytes_ + used_, s.data(), n);
    used_ += n;
    return *this;
  }
  char bytes_[kLineBytes];
  size_t used_ = 0;
};

class Log {
 public:
  Log() {
    const char* pattern = std::getenv("GWSIM_TRUTH");
    if (!pattern || !*pattern) return;
    std::string path = pattern;
    if (const size_t at = path.find("%p"); at != std::string::npos)
      path.replace(at, 2, std::to_string(getpid()));
    fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (fd_ < 0) {
      std::fprintf(stderr, "[gpuwatch simulated device] GWSIM_TRUTH: cannot write %s\n", path.c_str());
      std::abort();
    }
    pid_ = getpid();
    write_header();
  }

  bool enabled() const { return fd_ >= 0; }

  void append(std::string_view line) {
    ThreadBuffer& buffer = mine();
    std::lock_guard lock(buffer.mutex);
    put(buffer, line, 0);
  }

  // Completes the line with "end", read when all but these digits is written. Formatting or a write(2) after
  // that reading would be part of the call for its caller but missing in the log.
  void append_ending_now(std::string_view line) {
    ThreadBuffer& buffer = mine();
    std::lock_guard lock(buffer.mutex);
    constexpr std::string_view kKey = ",\"end\":", kClose = "}\n";
    constexpr size_t kDigits = 20;
    put(buffer, line, kKey.size() + kDigits + kClose.size());
    put(buffer, kKey, 0);
    char* const digits = buffer.text + buffer.used;
    buffer.used += static_cast<size_t>(std::to_chars(digits, digits + kDigits, now_ns()).ptr - digits);
    put(buffer, kClose, 0);
  }

  void flush_all() {
    if (!enabled()) return;
    std::lock_guard lock(mutex_);
    for (ThreadBuffer* buffer : buffers_) {
      std::lock_guard buffer_lock(buffer->mutex);
      flush(*buffer);
    }
  }

 private:
  void write_header() {
    Line line("header");
    line.number("version", 1).number("pid", pid_).text("clock", "CLOCK_MONOTONIC");
    line.text("device", config().device_name).number("devices", config().devices);
    line.number("default_stream", 7).text("config", config_text());
    const std::string_view text = line.finish();
    write_all(fd_, text.data(), text.size());
  }

  void put(ThreadBuffer& buffer, std::string_view text, size_t room_after) {
    if (buffer.used + text.size() + room_after > kBufferBytes) flush(buffer);
    std::memcpy(buffer.text + buffer.used, text.data(), text.size());
    buffer.used += text.size();
  }

  void flush(ThreadBuffer& buffer) {
    if (getpid() == pid_) write_all(fd_, buffer.text, buffer.used);
    buffer.used = 0;
  }

  // Buffers outlive their threads: what a thread logged just before it ended is written at exit.
  ThreadBuffer& mine() {
    thread_local ThreadBuffer* t_buffer = nullptr;
    if (!t_buffer) {
      t_buffer = new ThreadBuffer;
      std::lock_guard lock(mutex_);
      buffers_.push_back(t_buffer);
    }
    return *t_buffer;
  }

  int fd_ = -1;
  pid_t pid_ = 0;
  std::mutex mutex_;
  std::vector<ThreadBuffer*> buffers_;
};

Log& log() {
  static Log* instance = new Log;
  return *instance;
}

uint32_t thread_id() {
  thread_local const uint32_t t_id = static_cast<uint32_t>(syscall(SYS_gettid));
  return t_id;
}

[[gnu::destructor]] void flush_at_exit() {
  log().flush_all();
}

}  // namespace

const char* to_string(OpKind kind) {
  static const char* const kNames[] = {"kernel", "copy.h2d",      "copy.d2h", "copy.d2d", "copy.p2p",
                                       "memset", "host_function", "graph",    "marker"};
  return kNames[static_cast<int>(kind)];
}

const char* to_string(MemoryKind kind) {
  static const char* const kNames[] = {"unknown", "pageable", "pinned", "device", "array", "managed"};
  return kNames[static_cast<int>(kind)];
}

bool truth_enabled() {
  return log().enabled();
}

void truth_op(const Op& op) {
  if (!log().enabled()) return;
  Line line("op");
  line.text("kind", to_string(op.kind));
  if (op.kernel) line.text("name", op.kernel->name());
  line.number("device", op.device).number("stream", op.stream).number("corr", op.correlation);
  if (op.kind == OpKind::kKernel) {
    line.number("blocks", int64_t{op.grid[0]} * op.grid[1] * op.grid[2]);
  } else if (op.bytes) {
    line.number("bytes", static_cast<int64_t>(op.bytes));
    line.text("src", to_string(op.src)).text("dst", to_string(op.dst));
  }
  if (op.graph_id) line.number("graph", op.graph_id);
  line.number("submit", op.submit_ns).number("start", op.start_ns).number("end", op.end_ns);
  log().append(line.finish());
}

void truth_host(const char* api, uint32_t correlation, Ns begin_ns, Ns until_ns) {
  if (!log().enabled()) return;
  Line line("host");
  line.text("api", api).number("tid", thread_id()).number("corr", correlation).number("begin", begin_ns);
  if (until_ns) line.number("until", until_ns);
  log().append_ending_now(line.text());
}

void truth_flush() {
  log().flush_all();
}

}  // namespace gpuwatch::sim
