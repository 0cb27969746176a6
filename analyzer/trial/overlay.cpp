// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/overlay.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"
#include "analyzer/trial/covering.h"
#include "analyzer/trial/mount_namespace.h"
#include "analyzer/trial/scratch_folder.h"

extern char** environ;

namespace gpuwatch::trial {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargest = 5;  // paths in one sentence

void send_message(int socket, const std::string& text, int fd) {
  iovec part = {const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

// "" at the end of messages.
std::string received(int socket, int& fd) {
  std::string text(PATH_MAX + 64, '\0');
  iovec part = {text.data(), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t bytes;
  do bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (bytes < 0 && errno == EINTR);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header && header->cmsg_type == SCM_RIGHTS) std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  text.resize(bytes > 0 ? bytes : 0);
  return text;
}

struct File {
  uint64_t bytes;
  std::string path;
};

void collect(int parent, const char* name, const std::string& path, std::vector<File>& files) {
  int fd = opened_folder(parent, name);
  DIR* folder = fd < 0 ? nullptr : fdopendir(fd);
  if (!folder) return;
  while (dirent* entry = readdir(folder)) {
    std::string_view entry_name = entry->d_name;
    if (entry_name == "." || entry_name == ".." || entry_name == "__pycache__") continue;
    struct stat status = {};
    if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    std::string entry_path = path + "/" + entry->d_name;
    if (S_ISDIR(status.st_mode)) collect(fd, entry->d_name, entry_path, files);
    if (S_ISREG(status.st_mode)) files.push_back({static_cast<uint64_t>(status.st_size), entry_path});
  }
  closedir(folder);
}

std::string size_words(uint64_t bytes) {
  constexpr std::pair<uint64_t, const char*> kUnits[] = {{1000000000, "GB"}, {1000000, "MB"}, {1000, "kB"}};
  for (auto [unit, name] : kUnits)
    if (bytes >= unit)
      return fmt::format("{:.1f} {}", static_cast<double>(bytes) / static_cast<double>(unit), name);
  return fmt::format("{} bytes", bytes);
}

bool is_kernel_older_than(int major, int minor) {
  utsname name = {};
  int its_major = 0, its_minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &its_major, &its_minor) != 2) return false;
  return std::pair(its_major, its_minor) < std::pair(major, minor);
}

bool has_seccomp_filter() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Seccomp:")) return line.find('2') != std::string::npos;
  return false;
}

std::string user_namespace_reason() {
  if (first_line("/proc/sys/kernel/unprivileged_userns_clone") == "0")
    return "user namespaces are switched off (kernel.unprivileged_userns_clone=0)";
  if (first_line("/proc/sys/user/max_user_namespaces") == "0")
    return "user namespaces are switched off (user.max_user_namespaces=0)";
  if (first_line("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1")
    return "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns=1)";
  return "";
}

std::string reason(const std::string& step, int error, bool is_own) {
  if (std::string known = is_own ? user_namespace_reason() : ""; !known.empty()) return known;
  if (error == EPERM && has_seccomp_filter() && step.starts_with("unshare"))
    return "a seccomp filter, usually the container's, refuses new namespaces";
  if (error == ENODEV) return "this kernel has no overlayfs";
  if (error == EPERM && is_kernel_older_than(5, 11))
    return "this kernel is older than 5.11, which overlays without root need";
  return step;
}

// In a child: the smallest overlay that can be. Returns errno, with the failed step in words.
int try_small_overlay(const std::string& folder, std::string& step, bool& is_own) {
  step = separate_mounts(is_own);
  if (!step.empty()) return errno;
  if (mount("gpuwatch", folder.c_str(), "tmpfs", 0, "size=1m") != 0) {
    step = failed("mount(tmpfs)", folder, errno);
    return errno;
  }
  int fds[3];
  for (int i = 0; i < 3; ++i) {
    std::string path = fmt::format("{}/{}", folder, i);
    mkdir(path.c_str(), 0700);
    fds[i] = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  int error = mount_overlay(folder + "/0", fds[0], fds[1], fds[2], is_initial_user_namespace());
  if (error) step = failed("mount(overlay)", folder, error);
  return error;
}

[[noreturn]] void probe(const std::string& folder, int pipe) {
  std::string step;
  bool is_own = false;
  int error = try_small_overlay(folder, step, is_own);
  std::string text = step.empty() ? "" : reason(step, error, is_own);
  ssize_t ignored = write(pipe, text.data(), text.size());
  _exit(step.empty() && ignored == 0 ? 0 : 1);
}

std::string read_all(int fd) {
  std::string text;
  char buffer[512];
  for (ssize_t bytes; (bytes = read(fd, buffer, sizeof buffer)) != 0;) {
    if (bytes > 0)
      text.append(buffer, bytes);
    else if (errno != EINTR)
      break;
  }
  return text;
}

}  // namespace

std::optional<std::string> cannot_overlay() {
  std::vector<std::string> places = scratch_places("");
  if (places.empty()) return "no folder for temporary files is writable (set TMPDIR)";
  std::string folder = places[0] + "/gpuwatch-probe-XXXXXX";
  int pipes[2];
  if (!mkdtemp(folder.data()) || pipe2(pipes, O_CLOEXEC) != 0) return failed("mkdtemp", folder, errno);
  pid_t child = fork();
  if (child == 0) probe(folder, pipes[1]);
  close(pipes[1]);
  std::string text = child < 0 ? fmt::format("fork: {}", std::strerror(errno)) : read_all(pipes[0]);
  close(pipes[0]);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  rmdir(folder.c_str());
  if (text.empty() && status != 0) return "the process that tried it was killed";
  return text.empty() ? std::nullopt : std::optional(text);
}

std::vector<std::string> likely_written(const std::vector<std::string>& command) {
  std::set<std::string> found;
  auto add = [&](const std::string& text) {
    std::error_code error;
    size_t value = text.starts_with('-') && text.find('=') != text.npos ? text.find('=') + 1 : 0;
    fs::path path = fs::weakly_canonical(fs::absolute(text.substr(value), error), error);
    if (!error && path.is_absolute()) found.insert(path.string());
  };
  for (const char* path : {".", "/tmp", "/var/tmp"}) add(path);
  for (size_t i = 1; i < command.size(); ++i)
    if (command[i].find('/') != std::string::npos) add(command[i]);
  for (char** entry = environ; *entry; ++entry) {
    const char* value = std::strchr(*entry, '=');
    const bool is_list = value && std::strchr(value, ':');  // PATH and its kind are read, not written
    if (value && value[1] == '/' && !is_list) add(value + 1);
  }
  return {found.begin(), found.end()};
}

std::string written_words(const Written& written) {
  if (written.files == 0) return "";
  std::string paths;
  for (const std::string& path : written.largest) paths += (paths.empty() ? "" : ", ") + io::printable(path);
  const bool is_one = written.files == 1;
  return fmt::format("the trial wrote {} file{} ({}: {}{}), which {} dropped", written.files,
                     is_one ? "" : "s", size_words(written.bytes), paths,
                     written.files > written.largest.size() ? ", ..." : "", is_one ? "was" : "were");
}

Overlay::Overlay(OverlayPlan plan) : plan_(std::move(plan)) {
  std::error_code error;
  working_directory_ = fs::current_path(error).string();
  if (error) throw io::UserError("the working directory does not exist any more");
  for (std::string& kept : plan_.kept) {
    fs::path path = fs::canonical(kept, error);
    if (error) throw io::UserError(fmt::format("cannot open {}: {}", io::printable(kept), error.message()));
    kept = path.string();
  }
  plan_.likely = writable_roots(plan_.likely);
  // Usually in /tmp. Its FIFOs and sockets lead to the MPS server only when they are the real ones.
  const char* mps = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  fs::path pipes = fs::canonical(mps ? mps : "/tmp/nvidia-mps", error);
  if (!error && fs::is_directory(pipes, error)) plan_.kept.push_back(pipes.string());
  for (const std::string& place : scratch_places(plan_.scratch)) {
    std::string path = place + "/gpuwatch-trial-XXXXXX";
    if (!mkdtemp(path.data())) continue;  // a quota or a full disk: the next one
    scratches_.push_back({path, open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)});
  }
  if (scratches_.empty())
    throw io::UserError(
        "no folder for temporary files is writable: set TMPDIR to a directory on a local disk");
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets_) != 0) {
    int reason_number = errno;
    remove();
    throw io::UserError(fmt::format("cannot make a socket: {}", std::strerror(reason_number)));
  }
}

Overlay::~Overlay() {
  remove();
  for (int fd : sockets_)
    if (fd >= 0) close(fd);
}

std::string Overlay::enter() {
  bool is_own = false;
  std::string error = separate_mounts(is_own);
  std::vector<int> scratches;
  for (const Scratch& scratch : scratches_)  // once more: the parent's descriptors belong to its namespace
    if (int fd = open(scratch.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); fd >= 0)
      scratches.push_back(fd);
    else if (error.empty())
      error = failed("open", scratch.path, errno);
  auto send = [this](const std::string& message, int fd) { send_message(sockets_[1], message, fd); };
  if (error.empty()) error = cover(std::move(scratches), is_own, send, plan_.kept, plan_.likely);
  if (error.empty() && chdir(working_directory_.c_str()) != 0)
    error = failed("chdir", working_directory_, errno);
  send(error.empty() ? "D" : "E" + error, -1);
  close(sockets_[1]);
  sockets_[1] = -1;
  return error;
}

void Overlay::take(const std::string& message) {
  const std::string text = message.substr(1);
  if (message[0] == 'E') error_ = text;
  if (message[0] == 'D') is_entered_ = true;
  if (message[0] == 'R') read_only_.push_back(text);
  if (message[0] == 'M') memory_bytes_ = std::strtoull(text.c_str(), nullptr, 10);
  if (message[0] != 'L') return;
  size_t first = text.find(' '), second = text.find(' ', first + 1);
  layers_.push_back({std::strtoul(text.c_str(), nullptr, 10), text.substr(first + 1, second - first - 1),
                     text.substr(second + 1)});
}

std::string Overlay::wait_until_entered() {
  close(sockets_[1]);
  sockets_[1] = -1;
  for (std::string message; !(message = received(sockets_[0], memory_directory_)).empty();) take(message);
  if (!error_.empty()) return error_;
  return is_entered_ ? "" : "the process ended while it mounted the overlays";
}

Written Overlay::what_was_written() const {
  std::vector<File> files;
  for (const Layer& layer : layers_) {
    int scratch = layer.scratch < scratches_.size() ? scratches_[layer.scratch].directory : memory_directory_;
    if (scratch >= 0) collect(scratch, layer.upper.c_str(), layer.path, files);
  }
  Written written;
  written.files = files.size();
  for (const File& file : files) written.bytes += file.bytes;
  std::ranges::stable_sort(files, std::greater<>(), &File::bytes);
  for (size_t i = 0; i < std::min(files.size(), kLargest); ++i) {
    const std::string& path = files[i].path;
    const bool is_here = working_directory_ != "/" && is_below(path, working_directory_);
    written.largest.push_back(is_here ? path.substr(working_directory_.size() + 1) : path);
  }
  return written;
}

std::string Overlay::remove() {
  std::string sentence;
  for (Scratch& scratch : scratches_) {
    struct stat status = {};
    fstat(scratch.directory, &status);
    int error = remove_tree(AT_FDCWD, scratch.path.c_str(), status.st_dev);
    if (error && sentence.empty()) sentence = failed("cannot remove", scratch.path, error);
    close(scratch.directory);
  }
  scratches_.clear();
  layers_.clear();
  if (memory_directory_ >= 0) close(memory_directory_);
  memory_directory_ = -1;
  return sentence;
}

}  // namespace gpuwatch::trial
