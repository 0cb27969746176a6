// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/packages.h"

#include <algorithm>
#include <set>
#include <string>

namespace gpuwatch::model {
namespace {

// Names that hardly any script gives to a folder of its project: not datasets, triton, apex, composer.
constexpr std::string_view kPackages[] = {
    "torch",      "torchvision", "torchaudio",   "torchtext",    "torchmetrics",    "functorch",
    "tensorflow", "keras",       "tf_keras",     "jax",          "jaxlib",          "flax",
    "equinox",    "optax",       "einops",       "opt_einsum",   "xformers",        "flash_attn",
    "kornia",     "gpytorch",    "dgl",          "deepspeed",    "torch_geometric", "torch_scatter",
    "peft",       "timm",        "monai",        "transformers", "diffusers",       "pytorch_lightning",
    "fastai",     "fastcore",    "skorch",       "numpy",        "pandas",          "scipy",
    "sklearn",    "PIL",         "bitsandbytes", "librosa",      "webdataset",      "albumentations"};

constexpr std::string_view kEnd = ".py:";  // of a line's file

std::string_view file_of(std::string_view line) {
  const size_t end = line.find(kEnd);
  return end == line.npos ? std::string_view() : line.substr(0, end + kEnd.size() - 1);
}

// "file:line function", as a stack has it, and not a name that begins like it.
bool is_frame(std::string_view line, std::string_view file) {
  if (file.empty()) return false;
  const std::string_view rest = line.substr(file.size() + 1);
  const size_t space = rest.find_first_not_of("0123456789");
  return space != rest.npos && space > 0 && rest[space] == ' ' && rest.find(' ', space + 1) == rest.npos;
}

template <class Function>
void for_each_line(std::string_view text, Function function) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    function(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

using Scripts = std::set<std::string, std::less<>>;

bool is_installed(std::string_view file) {
  return file.find("-packages/") != file.npos || file.find("/lib/python3.") != file.npos;
}

// Their paths are not recorded, their names are: a stack has the path. Where a package's program runs the
// script (a notebook's kernel), it tells nothing.
Scripts script_files(const Run& run) {
  Scripts names, files;
  for (const Process& process : run.processes)
    if (!process.script.empty()) names.emplace(base_name(process.script));
  for (const auto& [id, text] : run.texts) {
    const bool may_be_stack = text.find(kEnd) != std::string::npos;
    if (may_be_stack)
      for_each_line(text, [&](std::string_view line) {
        const std::string_view file = file_of(line);
        if (is_frame(line, file) && file.starts_with('/') && !is_installed(file) &&
            names.contains(base_name(file)))
          files.emplace(file);
      });
  }
  return files;
}

// Also not where the folder lies next to the script, which is then its own: only what is elsewhere is for
// certain somebody else's.
bool is_package(std::string_view file, const Scripts& scripts) {
  if (is_installed(file)) return false;
  const std::string_view name = known_package(file);
  if (name.empty()) return false;
  const std::string_view above = file.substr(0, size_t(name.data() - file.data()));
  const std::string_view folder = file.substr(0, above.size() + name.size() + 1);
  return std::ranges::none_of(scripts, [&](std::string_view script) {
    return script.starts_with(folder) || script.substr(0, script.rfind('/') + 1) == above;
  });
}

void mark(std::string& text, const Scripts& scripts) {
  if (text.find(kEnd) == std::string::npos) return;
  std::string marked;
  bool has_any = false;
  for_each_line(text, [&](std::string_view line) {
    if (!marked.empty()) marked += '\n';
    marked += line;
    const std::string_view file = file_of(line);
    if (!is_frame(line, file) || !is_package(file, scripts)) return;
    marked += kPackageMark;
    has_any = true;
  });
  if (has_any) text = std::move(marked);
}

}  // namespace

std::string_view known_package(std::string_view file) {
  for (size_t end = file.rfind('/'); end != file.npos && end > 0;) {
    const size_t slash = file.rfind('/', end - 1);
    if (slash == file.npos) break;
    const std::string_view folder = file.substr(slash + 1, end - slash - 1);
    if (std::ranges::find(kPackages, folder) != std::end(kPackages)) return folder;
    end = slash;
  }
  return {};
}

void mark_packages(Run& run) {
  const Scripts scripts = script_files(run);
  if (scripts.empty()) return;  // nothing tells what is the script's
  for (auto& [id, text] : run.texts) mark(text, scripts);
  for (Process& process : run.processes)
    for (Loader& loader : process.loaders) mark(loader.code, scripts);
}

}  // namespace gpuwatch::model
