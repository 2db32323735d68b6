#!/bin/sh
# Installs Steersman on this host: the program in /opt/steersman, units, users, folders and example settings.
# Run it again after an update, or as often as you like: what is there already stays, and what you edited is never
# overwritten. It starts nothing. `deploy/install.sh --help` lists the flags.

set -eu
umask 022

role=all
prefix=
command=
python=${PYTHON:-python3}
dry_run=no
uninstall=no
agents=

say() { printf '%s\n' "$*"; }
fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

usage() {
  cat <<'TEXT'
usage: deploy/install.sh [flags]

  --role ROLE      balancer, agent or all (the default): what this host is
  --agent NAME     the name of an agent of this host, such as gpu0; may be given several times (default: those that
                   are here, else cpu)
  --command PATH   a steersman that is installed already; without it one is built in /opt/steersman from this folder
  --python PATH    the interpreter for that, Python 3.11 or newer (default python3)
  --prefix DIR     put everything below DIR instead of /, and do not call systemd: to look at it, or for an image
  --dry-run        say what would be done, and change nothing
  --uninstall      remove what was installed; settings that you edited, users and data stay
  --help           this

llama.cpp is compiled for an agent. For a GPU say so to its build, for example:
  CMAKE_ARGS=-DGGML_CUDA=on deploy/install.sh --role agent --agent gpu0
TEXT
}

needs_value() { [ "$2" -ge 2 ] || fail "$1 needs a value; --help lists the flags"; }

while [ $# -gt 0 ]; do
  case $1 in
    --role) needs_value "$1" $#; role=$2; shift ;;
    --agent) needs_value "$1" $#; agents="$agents $2"; shift ;;
    --command) needs_value "$1" $#; command=$2; shift ;;
    --python) needs_value "$1" $#; python=$2; shift ;;
    --prefix) needs_value "$1" $#; prefix=$2; shift ;;
    --dry-run) dry_run=yes ;;
    --uninstall) uninstall=yes ;;
    -h | --help) usage; exit 0 ;;
    *) fail "there is no flag $1; --help lists the flags" ;;
  esac
  shift
done

case $role in balancer | agent | all) ;; *) fail "--role must be balancer, agent or all, not $role" ;; esac
case $prefix in '' | /*) ;; *) fail "--prefix must be an absolute path, not $prefix" ;; esac
case $command in '' | /*) ;; *) fail "--command must be an absolute path, not $command" ;; esac
for name in $agents; do
  case $name in *[!A-Za-z0-9_-]*) fail "--agent $name: a name has letters, digits, - and _ only" ;; esac
done
prefix=${prefix%/}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
source=$(dirname -- "$here")
venv=$prefix/opt/steersman
stamp=$venv/.installed-by-steersman
units=$prefix/usr/local/lib/systemd/system
config=$prefix/etc/steersman
manifest=$prefix/usr/local/share/steersman/installed-files
program=${command:-/opt/steersman/bin/steersman}

# Without a name: those that are here already, else one for the processor.
if [ -z "$agents" ]; then
  for file in "$config"/agents/*.env; do
    [ ! -e "$file" ] || agents="$agents $(basename -- "$file" .env)"
  done
  agents=${agents:-cpu}
fi

has_role() { [ "$role" = all ] || [ "$role" = "$1" ]; }
is_real() { [ -z "$prefix" ]; }
hash_of() { sha256sum <"$1" | cut -d ' ' -f 1; }

# ---- what it needs --------------------------------------------------------------------------------------------

check_needs() {
  for tool in sha256sum sed install mktemp; do
    command -v "$tool" >/dev/null || fail "this host has no $tool; install coreutils and sed"
  done
  [ -z "$command" ] || [ -x "$command" ] || fail "--command $command is not a program"
  if is_real && [ "$dry_run" = no ]; then
    [ "$(id -u)" = 0 ] || fail "this has to run as root (sudo), or with --prefix DIR to look at it first"
    command -v systemctl >/dev/null || fail "this host has no systemd; start steersman by hand (docs/operations.md)"
    # An older one does not look into /etc/credstore, and would start a balancer without its keys.
    version=$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 252 ] || fail "the units need systemd 252 or newer, and this host has ${version:-an unknown one}"
  fi
  if [ -z "$command" ] && [ "$uninstall" = no ]; then
    "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
      fail "$python is not Python 3.11 or newer with its venv module; install one (Debian, Ubuntu: apt install" \
        "python3-venv) or name it with --python"
    if has_role agent; then
      { command -v "${CC:-cc}" && command -v "${CXX:-c++}"; } >/dev/null ||
        fail "there is no C and C++ compiler, and llama.cpp is compiled here; install one (Debian, Ubuntu: apt install" \
          "build-essential), or use --role balancer"
    fi
  fi
}

# The units cannot look into homes (ProtectHome=), where pyenv and virtual environments of people are.
warn_of_homes() {
  for one in "$command" "$([ -n "$command" ] || "$python" -c 'import sys; print(sys._base_executable)')"; do
    case $(readlink -f -- "$one" || true) in
      /home/* | /root/*) say "WARNING  $one is in somebody's home, where the units cannot see it; they will not start" ;;
    esac
  done
}

# ---- single files ---------------------------------------------------------------------------------------------

# The hash that a file had when it was installed; empty when it was not.
recorded_hash() { [ ! -f "$manifest" ] || sed -n "s|^\([0-9a-f]*\)  $1\$|\1|p" "$manifest" | head -n 1; }

# Of a path without the prefix.
record() {
  install -d "$(dirname -- "$manifest")"
  kept=$(mktemp)
  [ ! -f "$manifest" ] || grep -v "  $2\$" "$manifest" >"$kept" || true
  printf '%s  %s\n' "$1" "$2" >>"$kept"
  install -m 0644 "$kept" "$manifest"
  rm -f "$kept"
}

# put SOURCE TARGET: TARGET without the prefix. Says what it does; never overwrites what somebody edited.
put() {
  target=$prefix$2
  wanted=$(mktemp)
  sed "s|/opt/steersman/bin/steersman|$program|g" "$1" >"$wanted"
  new=$(hash_of "$wanted")
  if [ ! -e "$target" ]; then
    action=put
  else
    old=$(hash_of "$target")
    if [ "$old" = "$new" ]; then
      action=same
    elif [ "$old" = "$(recorded_hash "$2")" ]; then
      action=update
    else
      action=edited
    fi
  fi
  case $action in
    edited) say "kept     $target: it was edited; the new one is $1" ;;
    same)
      say "same     $target"
      [ "$dry_run" = yes ] || [ "$new" = "$(recorded_hash "$2")" ] || record "$new" "$2"
      ;;
    *)
      if [ "$dry_run" = yes ]; then
        say "would $action $target"
      else
        install -d "$(dirname -- "$target")"
        install -m 0644 "$wanted" "$target"
        record "$new" "$2"
        say "$action      $target" | sed 's/^update     /updated /'
      fi
      ;;
  esac
  rm -f "$wanted"
}

# Removes a file of the manifest unless it was edited.
take_away() {
  target=$prefix$2
  if [ ! -e "$target" ]; then
    return
  elif [ "$(hash_of "$target")" != "$1" ]; then
    say "kept     $target: it was edited; remove it yourself if nobody needs it"
  elif [ "$dry_run" = yes ]; then
    say "would remove $target"
  else
    rm -f -- "$target"
    say "removed  $target"
  fi
}

# ---- the program ----------------------------------------------------------------------------------------------

extra() { if has_role agent; then echo '[agent]'; fi; }

# What the program is built from; another one means that it is built again.
hash_of_source() {
  (cd "$source" && { find agent balancer shared -type f ! -name '*.pyc' | LC_ALL=C sort &&
    printf '%s\n' pyproject.toml constraints.txt; } | while read -r one; do sha256sum "$one"; done |
    { cat; printf '%s\n' "$(extra) ${CMAKE_ARGS:-}"; } | sha256sum | cut -d ' ' -f 1)
}

build_program() {
  wanted_stamp=$(hash_of_source)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted_stamp" ]; then
    say "same     $venv"
    return
  fi
  if [ "$dry_run" = yes ]; then
    say "would build $venv from $source"
    return
  fi
  say "building $venv from $source"
  if has_role agent; then say "   where llama.cpp is compiled that takes about ten minutes on two cores"; fi
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}"
  # gcc before 13 miscompiles ggml's AMX kernels without these (see the Makefile).
  keep_stores='-fno-tree-dse -fno-dse'
  # shellcheck disable=SC2086 # two words
  if has_role agent && echo | "${CC:-cc}" -Werror $keep_stores -x c -fsyntax-only - 2>/dev/null; then
    export CFLAGS="${CFLAGS:-} $keep_stores" CXXFLAGS="${CXXFLAGS:-} $keep_stores"
  fi
  "$venv/bin/python" -m pip install --disable-pip-version-check -q -c "$source/constraints.txt" pip
  "$venv/bin/python" -m pip install --disable-pip-version-check -q -c "$source/constraints.txt" \
    --build-constraint "$source/constraints.txt" --upgrade --force-reinstall --no-deps "$source"
  "$venv/bin/python" -m pip install --disable-pip-version-check -q -c "$source/constraints.txt" \
    --build-constraint "$source/constraints.txt" "$source$(extra)"
  printf '%s\n' "$wanted_stamp" >"$stamp"
  say "built    $venv"
}

# ---- both ways ------------------------------------------------------------------------------------------------

install_files() {
  put "$here/systemd/steersman.target" /usr/local/lib/systemd/system/steersman.target
  put "$here/sysusers.d/steersman.conf" /usr/local/lib/sysusers.d/steersman.conf
  put "$here/tmpfiles.d/steersman.conf" /usr/local/lib/tmpfiles.d/steersman.conf
  if has_role balancer; then
    put "$here/systemd/steersman-balancer.service" /usr/local/lib/systemd/system/steersman-balancer.service
    put "$here/env/balancer.env" /etc/steersman/balancer.env
  fi
  if has_role agent; then
    put "$here/systemd/steersman-agent@.service" "/usr/local/lib/systemd/system/steersman-agent@.service"
    put "$here/env/agent.env" /etc/steersman/agent.env
    for name in $agents; do
      put "$here/env/agent-instance.env" "/etc/steersman/agents/$name.env"
    done
  fi
}

tell_systemd() {
  is_real || return 0
  if [ "$dry_run" = yes ]; then
    say "would make users and folders of the two .conf files, and have systemd read its units again"
    return 0
  fi
  systemd-sysusers /usr/local/lib/sysusers.d/steersman.conf
  systemd-tmpfiles --create /usr/local/lib/tmpfiles.d/steersman.conf
  systemctl daemon-reload
}

say_what_is_next() {
  say ""
  say "Next:"
  if has_role balancer; then
    say "  edit $config/balancer.env, then: systemctl enable --now steersman.target steersman-balancer"
  fi
  if has_role agent; then
    for name in $agents; do
      say "  edit $config/agents/$name.env, then: systemctl enable --now steersman.target steersman-agent@$name"
    done
  fi
  say "  after an update: systemctl restart steersman.target"
  say "  secrets, watching and GPUs: docs/systemd.md"
}

uninstall_all() {
  [ -f "$manifest" ] || { say "nothing is installed here"; return; }
  if is_real && [ "$dry_run" = no ]; then
    systemctl stop steersman.target steersman-balancer.service 'steersman-agent@*.service' || true
    for link in /etc/systemd/system/steersman.target.wants/steersman-*.service; do
      [ ! -L "$link" ] || systemctl disable "$(basename -- "$link")"
    done
    systemctl disable steersman.target 2>/dev/null || true
  fi
  while read -r recorded path; do
    take_away "$recorded" "$path"
  done <"$manifest"
  if [ -f "$stamp" ]; then
    if [ "$dry_run" = yes ]; then say "would remove $venv"; else rm -rf -- "$venv" && say "removed  $venv"; fi
  fi
  [ "$dry_run" = no ] || return 0
  rm -f -- "$manifest"
  for folder in "$config/agents" "$config" "$(dirname -- "$manifest")" "$units"; do
    rmdir -- "$folder" 2>/dev/null || true # what is not empty stays
  done
  if is_real; then
    systemctl daemon-reload
  fi
  say "kept     users, /etc/credstore, /var/lib/steersman-balancer, /var/lib/steersman-agent, /var/cache/steersman-agent"
}

check_needs
if [ "$uninstall" = yes ]; then
  uninstall_all
  exit 0
fi
warn_of_homes
[ -n "$command" ] || build_program
install_files
tell_systemd
[ "$dry_run" = yes ] || say_what_is_next
