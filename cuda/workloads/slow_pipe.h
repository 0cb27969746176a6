// SPDX-License-Identifier: Apache-2.0
// Where a program writes to and has to wait: a pipe whose other end takes a fixed time for each piece, as a
// slow terminal or a store over the network does.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

class SlowPipe {
 public:
  static constexpr int kPieceBytes = 4096;

  explicit SlowPipe(double ms_a_piece) {
    if (pipe(ends_) != 0 || fcntl(ends_[1], F_SETPIPE_SZ, kPieceBytes) < 0) {
      std::perror("pipe");
      std::exit(1);
    }
    reader_ = std::thread([this, ms_a_piece] {
      std::vector<char> piece(kPieceBytes);
      while (read(ends_[0], piece.data(), piece.size()) > 0)
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms_a_piece));
    });
  }
  ~SlowPipe() {
    close(ends_[1]);
    reader_.join();
    close(ends_[0]);
  }
  SlowPipe(const SlowPipe&) = delete;
  SlowPipe& operator=(const SlowPipe&) = delete;

  // Returns when all but the last piece was taken.
  void put(int pieces) {
    const std::vector<char> text(static_cast<size_t>(pieces) * kPieceBytes, '.');
    for (size_t done = 0; done < text.size();) {
      const ssize_t written = write(ends_[1], text.data() + done, text.size() - done);
      if (written <= 0) return;
      done += static_cast<size_t>(written);
    }
  }

 private:
  int ends_[2];
  std::thread reader_;
};
