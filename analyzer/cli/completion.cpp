// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/completion.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::cli {

namespace {

std::string names_of(const CommandWords& command, bool only_with_value) {
  std::string names;
  for (const OptionWords& option : command.options)
    if (!only_with_value || !option.value.empty())
      for (const std::string& name : option.names) names += (names.empty() ? "" : " ") + name;
  return names;
}

bool runs_a_command(const CommandWords& command) {
  return std::ranges::any_of(command.operands,
                             [](const OptionWords& operand) { return operand.names[0] == "command"; });
}

std::string joined(std::string text, char from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, 1, to);
  return text;
}

// Inside '...' of a shell.
std::string quoted(const std::string& text) {
  return joined(text, '\'', "'\\''");
}

std::string bash_cases(const std::vector<CommandWords>& commands) {
  std::string out;
  for (const CommandWords& command : commands)
    out += fmt::format("    {}) options='{}' valued='{}' runs={} ;;\n", command.name,
                       names_of(command, false), names_of(command, true), runs_a_command(command) ? 1 : 0);
  return out;
}

std::string bash(const std::vector<CommandWords>& table) {
  const std::vector<CommandWords> commands(table.begin() + 1, table.end());
  std::string names;
  for (const CommandWords& command : commands) names += (names.empty() ? "" : " ") + command.name;
  return fmt::format(R"sh(# bash completion for gpuwatch; made by: gpuwatch completion bash
_gpuwatch() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} options='' valued='' runs=0 at
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{} {}' -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  if [ "$runs" = 1 ]; then  # the first word that is no option, nor an option's value, begins the job's command
    for ((at = 2; at < COMP_CWORD; ++at)); do
      case ${{COMP_WORDS[at]}} in
        --) options=''; ((++at)); break ;;
        -*) [[ " $valued " != *" ${{COMP_WORDS[at]}} "* ]] || ((++at)) ;;
        *) break ;;
      esac
    done
    if [ "$at" -ne "$COMP_CWORD" ]; then  # a word of the job's command, or an option's value
      [ "$at" -gt "$COMP_CWORD" ] || ! declare -F _command_offset >/dev/null || _command_offset "$at"
      return
    fi
  fi
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  elif [ "$runs" = 1 ]; then
    COMPREPLY=($(compgen -c -- "$word"))
  elif [ "${{COMP_WORDS[1]}}" = explain ]; then
    COMPREPLY=($(compgen -W "$(gpuwatch findings --ids 2>/dev/null)" -- "$word"))
  fi
}}
complete -o default -F _gpuwatch gpuwatch
)sh",
                     names, names_of(table[0], false), bash_cases(commands));
}

std::string zsh_spec(const OptionWords& option) {
  // Brackets and colons end a description.
  std::string description = quoted(option.description);
  for (char c : {'[', ']', ':'}) description = joined(description, c, std::string("\\") + c);
  std::string out;
  for (const std::string& name : option.names)
    out += fmt::format(" '{}[{}]{}'", name, description, option.value.empty() ? "" : ":value:_files");
  return out;
}

std::string zsh(const std::vector<CommandWords>& table) {
  std::string names, cases;
  for (size_t i = 1; i < table.size(); ++i) {
    const CommandWords& command = table[i];
    names += fmt::format("    '{}:{}'\n", command.name, quoted(joined(command.description, ':', "\\:")));
    cases += fmt::format("    {}) _arguments", command.name);
    for (const OptionWords& option : command.options) cases += zsh_spec(option);
    if (command.name == "explain")
      cases += " '1:finding:($(gpuwatch findings --ids 2>/dev/null))'";
    else if (runs_a_command(command))
      cases += " '(-):command:_command_names -e' '*::arguments:_normal'";
    else if (!command.operands.empty())
      cases += " '*:file:_files'";
    cases += " ;;\n";
  }
  return fmt::format(R"sh(#compdef gpuwatch
# zsh completion for gpuwatch; made by: gpuwatch completion zsh
_gpuwatch() {{
  local -a commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe -t commands command commands
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
{}  esac
}}
# Loaded by fpath the file is the function's body; sourced it must register the function.
if [ "$funcstack[1]" = _gpuwatch ]; then _gpuwatch "$@"; else compdef _gpuwatch gpuwatch; fi
)sh",
                     names, cases);
}

std::string fish_option(const CommandWords& command, const OptionWords& option) {
  std::string out = fmt::format("complete -c gpuwatch -n '__fish_seen_subcommand_from {}'", command.name);
  for (const std::string& name : option.names)
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  return out + fmt::format("{} -d '{}'\n", option.value.empty() ? "" : " -r",
                           joined(joined(option.description, '\\', "\\\\"), '\'', "\\'"));
}

std::string fish(const std::vector<CommandWords>& table) {
  std::string out = "# fish completion for gpuwatch; made by: gpuwatch completion fish\n";
  for (size_t i = 1; i < table.size(); ++i) {
    const CommandWords& command = table[i];
    out += fmt::format("complete -c gpuwatch -n __fish_use_subcommand -f -a {} -d '{}'\n", command.name,
                       joined(command.description, '\'', "\\'"));
    for (const OptionWords& option : command.options) out += fish_option(command, option);
    if (runs_a_command(command))
      out += fmt::format(
          "complete -c gpuwatch -n '__fish_seen_subcommand_from {}' -a "
          "'(__fish_complete_subcommand --fcs-skip=2)'\n",
          command.name);
  }
  out +=
      "complete -c gpuwatch -n '__fish_seen_subcommand_from explain' -f -a '(gpuwatch findings --ids "
      "2>/dev/null)'\n";
  return out;
}

}  // namespace

std::string completion(const std::vector<CommandWords>& table, const std::string& shell) {
  if (shell == "bash") return bash(table);
  if (shell == "zsh") return zsh(table);
  if (shell == "fish") return fish(table);
  throw io::UserError(
      fmt::format("there is no completion for {}; say bash, zsh or fish", io::printable(shell)));
}

}  // namespace gpuwatch::cli
