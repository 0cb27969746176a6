// SPDX-License-Identifier: Apache-2.0
// A private mount namespace of one process, and what can be done in it. The functions that change mounts are
// for a forked child before exec; each gives the failed step as a sentence, "" where nothing is wrong. One
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuwatch::trial {

std::string failed(std::string_view call, const std::string& path,
                   int error);  // "mount /data: Permission denied"
std::string fd_path(int fd);    // "/proc/self/fd/7"
bool is_below(const std::string& path, const std::string& directory);
bool is_at_or_below(const std::string& path, const std::string& directory);
std::string first_line(const char* path);

// Kernel interfaces, sockets and shared memory, which are never covered.
bool stays_real(const std::string& path);

struct Mount {
  int id = 0;
  std::string point;
  std::string type;
  bool is_read_only = false;
  bool is_directory = false;
  int fd = -1;  // of its root, opened before anything is covered; -1 where another mount hides it
};
std::vector<Mount> mounts_here();  // by mount point

bool is_initial_user_namespace();

// Sets is_own when the namespace needed a user namespace: all mounts are locked in it.
std::string separate_mounts(bool& is_own);

// 0 or errno.
int mount_overlay(const std::string& target, int lower, int upper, int work, bool is_trusted);

std::string make_read_only(const std::string& path);

}  // namespace gpuwatch::trial
