// SPDX-License-Identifier: Apache-2.0
// Lets one process and its descendants write wherever they like and then drops all of it: a private mount
// namespace in which overlayfs covers every writable file system. Files are read from the real ones; the
// first write to a file copies it into a scratch folder.
//
// What is covered: each top-level directory (a layer's upper directory must not lie below its lower one, so
// "/" cannot be a single layer), each mount below them and, without CAP_SYS_ADMIN, the directories the job is
// likely to write to. "/" itself is read-only inside: a job that writes /x.txt fails, nothing is overwritten.
// The same holds for file systems that overlayfs refuses; these are listed in read_only().
// What stays real: /proc, /sys, /dev (with /dev/shm), /run, pseudo file systems, the plan's kept directories,
// and, of course, whatever the job reaches over a network, a socket or a descriptor.
//
// Without CAP_SYS_ADMIN the namespace maps one user and one group. Inside, the kernel refuses (EOVERFLOW) to
// modify files of other users and groups, and to rename a directory that exists outside (EXDEV; mv and
// shutil.move copy instead). Where directories have mounts below them, only their subdirectories are covered.
// Unix sockets in covered directories refuse connections, so a database behind one cannot be changed either.
// fsync does not reach the disk: the files are dropped anyway.
//
// Threads: construct, wait and remove in one thread; enter() only in a forked child before exec.
// Errors: the constructor throws io::UserError; the rest returns a sentence, "" where nothing is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpuwatch::trial {

struct OverlayPlan {
  std::vector<std::string> kept;    // existing directories that stay the real ones
  std::vector<std::string> likely;  // paths the job may write to; need not exist
  std::string scratch;              // preferred directory for scratch folders, "" for $TMPDIR or /var/tmp
};

// Why no overlay is possible here, as a piece of a sentence ("this kernel is older than 5.11"). Starts a
// process that tries a small one.
std::optional<std::string> cannot_overlay();

// Directories that the job may write to: working directory, home, temporary folders, and what absolute paths
// in the arguments and the environment lead to.
std::vector<std::string> likely_written(const std::vector<std::string>& command);

struct Written {
  uint64_t files = 0;  // regular files that were written or changed; Python's bytecode caches do not count
  uint64_t bytes = 0;  // their sizes
  std::vector<std::string> largest;  // paths as the job sees them, relative below its working directory
};

// "the trial wrote 3 files (1.2 GB: checkpoints/last.pt, ...), which were dropped"; "" for no file.
std::string written_words(const Written& written);

class Overlay {
 public:
  explicit Overlay(OverlayPlan plan);  // creates the scratch folders
  ~Overlay();                          // removes them
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  std::string enter();               // in the child
  std::string wait_until_entered();  // in the parent, after fork and before anything else here

  const std::vector<std::string>& read_only() const { return read_only_; }  // what the job cannot write
  uint64_t memory_bytes() const { return memory_bytes_; }  // size of the tmpfs that takes writes, 0 without

  // Both once no process of the job is left.
  Written what_was_written() const;
  std::string remove();

 private:
  struct Scratch {
    std::string path;
    int directory = -1;
  };
  struct Layer {
    size_t scratch = 0;  // index in scratches_, scratches_.size() for the tmpfs
    std::string upper;   // below it
    std::string path;    // of the directory that it covers
  };
  void take(const std::string& message);

  OverlayPlan plan_;
  std::string working_directory_;
  std::vector<Scratch> scratches_;
  std::vector<Layer> layers_;
  std::vector<std::string> read_only_;
  std::string error_;
  bool is_entered_ = false;
  uint64_t memory_bytes_ = 0;
  int memory_directory_ = -1;  // keeps the tmpfs readable after its namespace has gone
  int sockets_[2] = {-1, -1};  // parent, child
};

}  // namespace gpuwatch::trial
