// SPDX-License-Identifier: Apache-2.0
#include "libinject/machine/mount_line.h"

#include <cstring>

#include "libinject/machine/proc_text.h"

namespace gpuwatch::machine {
namespace {

constexpr const char* kRemote[] = {"nfs",   "nfs4",  "cifs",   "smb3",   "smbfs", "9p",        "lustre",
                                   "ceph",  "gpfs",  "afs",    "beegfs", "fhgfs", "glusterfs", "orangefs",
                                   "pvfs2", "panfs", "wekafs", "dvs",    "coda",  "fuse"};
// Programs that serve local files: images, overlays, encryption, local disks.
constexpr const char* kLocalFuse[] = {
    "fuse-overlayfs", "overlayfs",    "squashfuse", "squashfuse_ll", "snapfuse", "lxcfs",   "portal",
    "mergerfs",       "bindfs",       "encfs",      "gocryptfs",     "cryfs",    "ntfs-3g", "ntfs",
    "exfat",          "archivemount", "fuseiso",    "dwarfs",        "unionfs"};
constexpr const char* kPseudo[] = {
    "proc",    "sysfs",   "cgroup",     "cgroup2",  "devpts",    "devtmpfs", "mqueue",  "securityfs",
    "debugfs", "tracefs", "pstore",     "bpf",      "hugetlbfs", "configfs", "fusectl", "binfmt_misc",
    "autofs",  "nsfs",    "rpc_pipefs", "efivarfs", "selinuxfs", "nfsd",     "sockfs",  "pipefs"};

template <size_t kCount>
bool contains(const char* const (&names)[kCount], const char* name) noexcept {
  for (const char* known : names) {
    if (std::strcmp(known, name) == 0) return true;
  }
  return false;
}

const char* end_of_word(const char* at, const char* end) noexcept {
  while (at < end && *at != ' ') ++at;
  return at;
}

bool is_octal(char c) noexcept {
  return c >= '0' && c <= '7';
}

// Copies a word, with "\040" made a blank again; moves `at` behind it. False when it does not fit.
template <size_t kSize>
bool take_word(const char*& at, const char* end, char (&to)[kSize]) noexcept {
  const char* stop = end_of_word(at, end);
  size_t length = 0;
  while (at < stop) {
    char c = *at++;
    if (c == '\\' && stop - at >= 3 && is_octal(at[0]) && is_octal(at[1]) && is_octal(at[2])) {
      c = static_cast<char>((at[0] - '0') * 64 + (at[1] - '0') * 8 + (at[2] - '0'));
      at += 3;
    }
    if (length + 1 >= kSize) return false;
    to[length++] = c;
  }
  to[length] = 0;
  if (at < end) ++at;
  return length > 0;
}

bool skip_word(const char*& at, const char* end) noexcept {
  at = end_of_word(at, end);
  if (at < end) ++at;
  return at < end;
}

// As the kernel writes it into st_dev.
uint64_t encode_device(uint64_t major, uint64_t minor) noexcept {
  return (minor & 0xff) | major << 8 | (minor & ~uint64_t{0xff}) << 12;
}

}  // namespace

bool is_remote(const char* type) noexcept {
  if (std::strncmp(type, "fuse.", 5) == 0) return !contains(kLocalFuse, type + 5);
  return contains(kRemote, type);
}

bool is_pseudo(const char* type) noexcept {
  return contains(kPseudo, type);
}

// "36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/sda1 rw": the number of words before "-" varies.
bool parse_mount(const char* line, const char* end, MountLine* mount) noexcept {
  char number[64];
  const char* at = line;
  if (!take_word(at, end, number)) return false;
  const char* digits = number;
  mount->id = take_number(digits);
  if (!skip_word(at, end) || !take_word(at, end, number)) return false;
  digits = number;
  const uint64_t major = take_number(digits);
  if (*digits++ != ':') return false;
  mount->device = encode_device(major, take_number(digits));
  if (!skip_word(at, end) || !take_word(at, end, mount->point)) return false;
  while (at < end && !(*at == '-' && end_of_word(at, end) == at + 1)) {
    if (!skip_word(at, end)) return false;
  }
  return skip_word(at, end) && take_word(at, end, mount->type) && take_word(at, end, mount->source);
}

}  // namespace gpuwatch::machine
