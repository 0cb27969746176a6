// SPDX-License-Identifier: Apache-2.0
#include "analyzer/io/gzip_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::io {
namespace {

constexpr uint64_t kBlockBytes = 1 << 20;
// Kineto's traces pack 13 to 23 times (measured on five, 40 k to 216 k events); deflate can reach 1032.
constexpr uint64_t kMostPacked = 200, kAlwaysAllowed = 64 << 20;

struct CloseGzip {
  void operator()(gzFile file) const { gzclose_r(file); }
};
using Gzip = std::unique_ptr<gzFile_s, CloseGzip>;

Gzip open_gzip(const std::string& path, uint64_t& file_bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    throw UserError(fmt::format("cannot open {}: {}; check its name and permissions", printable(path),
                                std::strerror(errno)));
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    throw UserError(fmt::format("{} is not a file; name the exported trace itself", printable(path)));
  }
  file_bytes = static_cast<uint64_t>(status.st_size);
  Gzip gzip(gzdopen(file, "rb"));
  if (!gzip) {
    close(file);
    throw std::bad_alloc();
  }
  gzbuffer(gzip.get(), 1 << 17);
  return gzip;
}

[[noreturn]] void throw_damaged(const std::string& path, gzFile file, uint64_t read) {
  int code = 0;
  const char* words = gzerror(file, &code);
  const bool is_cut = code == Z_BUF_ERROR;
  throw UserError(
      fmt::format("{} {} after {} bytes of text; export or copy it again", printable(path),
                  is_cut ? "is cut off" : fmt::format("cannot be unpacked ({})", printable(words)), read));
}

}  // namespace

Text read_text(const std::string& path, uint64_t most_bytes) {
  Text text;
  const Gzip gzip = open_gzip(path, text.file_bytes);
  const uint64_t most_packed = std::max(kAlwaysAllowed, text.file_bytes * kMostPacked);
  for (;;) {
    const size_t size = text.bytes.size();
    if (size > std::min(most_bytes, most_packed))
      throw UserError(fmt::format(
          "{} holds more than {} MiB of text{}; profile fewer steps (torch.profiler.schedule)",
          printable(path), std::min(most_bytes, most_packed) >> 20,
          most_packed < most_bytes ? fmt::format(", {} times what it takes up", kMostPacked) : ""));
    if (text.bytes.capacity() < size + kBlockBytes + kTextPadding)
      text.bytes.reserve(2 * size + kBlockBytes + kTextPadding);
    text.bytes.resize(size + kBlockBytes);
    const int got = gzread(gzip.get(), text.bytes.data() + size, static_cast<unsigned>(kBlockBytes));
    text.bytes.resize(size + static_cast<size_t>(std::max(got, 0)));
    int code = Z_OK;
    gzerror(gzip.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) throw_damaged(path, gzip.get(), text.bytes.size());
    if (got == 0) return text;
  }
}

}  // namespace gpuwatch::io
