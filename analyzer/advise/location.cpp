// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/location.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>

#include "analyzer/model/stacks.h"

extern char** environ;

namespace gpuwatch::advise {
namespace {

constexpr int kSymboliseTimeoutMs = 5000;  // debug information of a large library; then the offset must do

std::string base_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

bool is_readable_file(const std::string& path) {
  struct stat status;
  return path.starts_with('/') && stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), R_OK) == 0;
}

// Output of `addr2line -Cfe path address`, at most 4 KiB; empty on any failure.
std::string run_addr2line(const std::string& path, uint64_t address) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::string hexadecimal = fmt::format("{:#x}", address);
  const char* arguments[] = {"addr2line", "-C", "-f", "-e", path.c_str(), hexadecimal.c_str(), nullptr};
  pid_t child = 0;
  int failed = posix_spawnp(&child, "addr2line", &actions, nullptr, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  std::string output;
  if (failed == 0) {
    char buffer[1024];
    pollfd readable{pipe_ends[0], POLLIN, 0};
    while (output.size() < 4096 && poll(&readable, 1, kSymboliseTimeoutMs) > 0) {
      ssize_t bytes = read(pipe_ends[0], buffer, sizeof buffer);
      if (bytes <= 0) break;
      output.append(buffer, size_t(bytes));
    }
    kill(child, SIGKILL);  // already ended, or too slow
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  close(pipe_ends[0]);
  return output;
}

struct Symbol {
  std::string words;              // "trainer.cu:88 (main)"; empty: not known
  bool is_system_header = false;  // a template of the compiler's or the system's libraries
};

// From "function\nfile:line\n".
Symbol describe(const std::string& output) {
  size_t end = output.find('\n');
  if (end == std::string::npos) return {};
  std::string function = output.substr(0, end);
  std::string line = output.substr(end + 1, output.find('\n', end + 1) - end - 1);
  line = line.substr(0, line.find(" ("));  // "(discriminator 2)"
  bool has_function = !function.empty() && function[0] != '?';
  bool has_line = !line.empty() && line[0] != '?' && !line.ends_with(":0") && !line.ends_with(":?");
  if (!has_line) return {};
  return {has_function ? fmt::format("{} ({})", base_name(line), function) : base_name(line),
          line.starts_with("/usr/include/") || line.find("/include/c++/") != std::string::npos};
}

// The address as the file's own symbols count it. A recorded range is that of the executable segment, whose
// place in the file's address space is in the program headers. 0 where the file is no ELF file.
uint64_t file_address(const model::ModuleRange& module, uint64_t address) {
  int file = open(module.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return 0;
  uint64_t result = 0;
  Elf64_Ehdr header;
  bool is_elf = pread(file, &header, sizeof header, 0) == ssize_t(sizeof header) &&
                std::equal(header.e_ident, header.e_ident + SELFMAG, ELFMAG) &&
                header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_phentsize == sizeof(Elf64_Phdr);
  for (unsigned i = 0; is_elf && i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    off_t at = off_t(header.e_phoff + i * sizeof segment);
    if (pread(file, &segment, sizeof segment, at) != ssize_t(sizeof segment)) break;
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    constexpr uint64_t kPage = 4096;
    bool covers_segment_only = module.size <= segment.p_memsz + 2 * kPage;
    if (header.e_type == ET_EXEC)
      result = address;
    else
      result = address - module.base + (covers_segment_only ? segment.p_vaddr & ~(kPage - 1) : 0);
    break;
  }
  close(file);
  return result;
}

Symbol symbolise(const model::ModuleRange& module, uint64_t address) {
  static std::mutex lock;
  static std::map<std::pair<std::string, uint64_t>, Symbol> known;
  std::lock_guard<std::mutex> guard(lock);
  auto [entry, is_new] = known.try_emplace({module.path, address - module.base});
  if (is_new && is_readable_file(module.path)) {
    uint64_t in_file = file_address(module, address);
    // A return address is that of the next instruction, perhaps of the next line.
    if (in_file > 0) entry->second = describe(run_addr2line(module.path, in_file - 1));
  }
  return entry->second;
}

// What every program is linked with: a place in it says nothing of this one.
bool is_library(const model::ModuleRange& module) {
  constexpr std::string_view kLibraries[] = {
      "ld-linux",      "libc.so",  "libc-",     "libm.so",     "libpthread",  "libdl",       "libstdc++",
      "libgcc_s",      "libgomp",  "libomp",    "libiomp",     "libcudart",   "libcuda.so",  "libcublas",
      "libcudnn",      "libcufft", "libcurand", "libcusparse", "libcusolver", "libnccl",     "libnvrtc",
      "libnvToolsExt", "libtorch", "libc10",    "libpython",   "libmkl",      "libopenblas", "libtensorflow"};
  const std::string name = base_name(module.path);
  return std::ranges::any_of(kLibraries, [&](std::string_view known) { return name.starts_with(known); });
}

const model::ModuleRange* module_of(const model::Process& process, uint64_t address) {
  for (const model::ModuleRange& module : process.modules)
    if (address >= module.base && address - module.base < module.size) return &module;
  return nullptr;
}

// The innermost line of the user's own code in a native stack; without lines its module, without it the
// library. Asking for a line takes time: for a few frames of a module only. Ourselves we leave out.
std::string native_line(const model::Run& run, const model::Process& process, const model::Thread& thread,
                        const model::HostCall& call) {
  const std::string* text = model::stack_of(run, thread, call);
  if (!text) return "";
  constexpr int kMostTries = 8;
  std::map<const model::ModuleRange*, int> tries;
  std::string own, library;
  for (const uint64_t address : model::addresses_of(*text)) {
    const model::ModuleRange* module = module_of(process, address);
    if (!module || base_name(module->path).starts_with("libgpuwatch")) continue;
    if (is_library(*module)) {
      if (library.empty()) library = base_name(module->path);
      continue;
    }
    if (++tries[module] > kMostTries) continue;
    const Symbol symbol = symbolise(*module, address);
    if (!symbol.words.empty() && !symbol.is_system_header) return symbol.words;
    if (own.empty() && symbol.words.empty() && !process.facts.contains("python"))
      own = fmt::format("{}+{:#x}", base_name(module->path), address - module->base);
  }
  return own.empty() ? library : own;
}

}  // namespace

std::string address_location(const model::Process& process, uint64_t address) {
  const model::ModuleRange* module = module_of(process, address);
  if (!module) return "";
  // Whoever wrote Python is not helped by a place in libtorch_cuda.so.
  const bool is_python = process.facts.contains("python");
  if (is_library(*module)) return is_python ? "" : base_name(module->path);
  const std::string symbol = symbolise(*module, address).words;
  if (!symbol.empty()) return symbol;
  return is_python ? "" : fmt::format("{}+{:#x}", base_name(module->path), address - module->base);
}

std::string call_location(const model::Run& run, const model::Process& process, uint32_t thread,
                          uint32_t call) {
  if (thread >= process.threads.size() || call >= process.threads[thread].calls.size()) return "";
  const model::Thread& owner = process.threads[thread];
  const model::HostCall& host = owner.calls[call];
  if (const auto frame = model::users_line_of(run, owner, host)) return frame->location();
  if (std::string line = native_line(run, process, owner, host); !line.empty()) return line;
  const bool has_io =
      detail_kind(host.op_class) == trace::DetailKind::kIo && host.detail < owner.io_details.size();
  const uint64_t caller = has_io ? owner.io_details[host.detail].caller() : model::caller_of(owner, host);
  return caller ? address_location(process, caller) : "";
}

}  // namespace gpuwatch::advise
