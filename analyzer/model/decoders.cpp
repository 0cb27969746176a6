// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/decoders.h"

#include <algorithm>
#include <string_view>

namespace gpuwatch::model {
namespace {

// Of PIL not Image.py, which also resizes and rotates: it reads the pixels by ImageFile.py. Of librosa and
// torchvision nothing: they call these.
constexpr std::string_view kFiles[] = {"/PIL/ImageFile.py", "ImagePlugin.py", "/soundfile.py"};
constexpr std::string_view kFolders[] = {"/torchvision/io/",
                                         "/torchaudio/_backend/",
                                         "/torchcodec/",
                                         "/audioread/",
                                         "/imageio/",
                                         "/tifffile/",
                                         "/pydicom/",
                                         "/nibabel/",
                                         "/skimage/io/",
                                         "/decord/",
                                         "/webdataset/autodecode"};
// Of Python's own library.
constexpr std::string_view kArchives[] = {
    "/zipfile.py", "/zipfile/__init__.py", "/tarfile.py", "/gzip.py", "/bz2.py",
    "/lzma.py",    "/_compression.py"};

}  // namespace

bool decodes_file(const StackFrame& frame) {
  const std::string_view file = frame.file;
  const auto is_end = [&](std::string_view end) { return file.ends_with(end); };
  if (std::ranges::any_of(kFiles, is_end)) return true;
  if (std::ranges::any_of(kFolders, [&](std::string_view part) { return file.find(part) != file.npos; }))
    return true;
  return is_torch_or_interpreter(frame) && std::ranges::any_of(kArchives, is_end);
}

bool decodes_files(const std::vector<StackFrame>& frames) {
  return std::ranges::any_of(frames, decodes_file);
}

}  // namespace gpuwatch::model
