# Makes the Python environments of this checkout. POSIX sh, sourced by the scripts beside this folder, which have
# set `root` to the repository's folder. Nothing but pip's own configuration is honoured.

# PYTHON:JAX, the best first. An environment is installed with constraints/jax-JAX.txt. jax 0.11.2, under which the
# shipped goldens were blessed, needs Python 3.12; Python 3.11 gets the newest jax that supports it.
DEFAULT_CHOICES="3.12:0.11.2 3.13:0.11.2 3.11:0.10.2"

# The supported versions of jax, each with its Python.
SUPPORTED="3.11:0.10.2 3.12:0.11.2 3.13:0.12.0.1"

UNAVAILABLE=4 # as jaxcheck's own exit code: the environment asked for cannot be had

say() {
  printf 'jaxcheck: %s\n' "$*" >&2
}

# ensure FOLDER EXTRA PYTHON:JAX... makes FOLDER an environment with the project, its EXTRA ("" for none) and the
# first of the choices whose Python is there. Silent, and without starting Python, where that has been done.
ensure() {
  folder=$1 extra=$2
  shift 2
  is_ready || locked install_first "$@"
}

is_ready() {
  [ -x "$folder/bin/python" ] && [ -f "$folder/.stamp" ] && { [ -z "$extra" ] || [ -f "$folder/.extra-$extra" ]; } &&
    stamp | cmp -s - "$folder/.stamp"
}

# What an environment was made from. The folder's own place is part of it: an environment does not survive a move.
stamp() {
  printf '%s\n' "$root"
  cat "$root/pyproject.toml" "$root"/constraints/*.txt
}

# locked COMMAND... runs it while no other process of this checkout installs, unless that has done the work.
locked() (
  lock=$root/.venv.lock lock_folder='' half_made=''
  trap 'clean_up' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$lock"
    flock -n 9 || { say "waiting for another installation in $root" && flock 9; }
  else
    lock_by_folder
  fi
  is_ready || "$@"
)

lock_by_folder() {
  told=''
  until mkdir "$lock.d" 2>/dev/null; do
    [ -w "$root" ] || { say "$root is not writable" && exit $UNAVAILABLE; }
    [ "$told" ] || say "waiting for another installation in $root (where there is none: rmdir '$lock.d')"
    told=yes
    sleep 1
  done
  lock_folder=$lock.d
}

clean_up() {
  [ -z "$half_made" ] || rm -rf "$half_made" "$half_made.log"
  [ -z "$lock_folder" ] || rmdir "$lock_folder"
}

install_first() {
  for choice in "$@"; do
    version=${choice%:*} jax=${choice#*:}
    python=$(find_python "$version")
    if [ -n "$python" ]; then
      install
      return
    fi
  done
  say_no_python "$@"
  exit $UNAVAILABLE
}

install() {
  say "installing into ${folder#"$root"/}: Python $version, jax $jax${extra:+, tools for $extra} (a minute or two)"
  half_made=$folder
  mkdir -p "${folder%/*}"
  { make_or_keep && install_project; } >"$folder.log" 2>&1 </dev/null || {
    cat "$folder.log" >&2
    say "the installation into $folder failed; what pip and venv said is above"
    exit $UNAVAILABLE
  }
  rm -f "$folder.log"
  [ -z "$extra" ] || : >"$folder/.extra-$extra"
  printf '%s\n' "$version:$jax" >"$folder/.choice"
  stamp >"$folder/.stamp"
  half_made=''
}

# An environment that was finished here with the same Python is updated, any other is made anew.
make_or_keep() {
  if [ -f "$folder/.stamp" ] && IFS= read -r made_in <"$folder/.stamp" && [ "$made_in" = "$root" ] &&
    works "$folder/bin/python" "$version"; then
    rm -f "$folder/.stamp" "$folder"/.extra-*
  else
    rm -rf "$folder"
    "$python" -I -m venv "$folder"
  fi
}

# From the lock, where there is one for these tools: only files with its hashes. Elsewhere by the pins alone.
install_project() {
  lock="constraints/lock-$extra-$jax.txt"
  cd "$root" || return
  if [ -f "$lock" ]; then
    pip_install --require-hashes --requirement "$lock" && pip_install --no-deps --no-build-isolation --editable .
  else
    pip_install --constraint "constraints/jax-$jax.txt" --editable ".${extra:+[$extra]}"
  fi
}

pip_install() {
  "$folder/bin/python" -I -m pip install --disable-pip-version-check --no-input --progress-bar off "$@"
}

find_python() {
  candidates "$1" | while IFS= read -r candidate; do
    if works "$candidate" "$1"; then
      printf '%s\n' "$candidate"
      break
    fi
  done
}

# A file of the right name proves nothing: it may be the shim of a version that is not selected, or a Python that a
# distribution ships without venv.
works() {
  "$1" -I -c "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$2')" </dev/null >/dev/null 2>&1
}

candidates() {
  on_path "python$1"
  pyenv_folders | while IFS= read -r pyenv_folder; do
    for found in "$pyenv_folder/versions/$1".*/bin/python; do
      [ ! -x "$found" ] || printf '%s\n' "$found"
    done
  done
  on_path python3
  on_path python
}

on_path() {
  path_folders | while IFS= read -r path_folder; do
    [ ! -f "$path_folder/$1" ] || [ ! -x "$path_folder/$1" ] || printf '%s\n' "$path_folder/$1"
  done
}

path_folders() {
  printf '%s\n' "$PATH" | tr ':' '\n' | sed 's/^$/./'
}

# HOME need not be the home that pyenv was installed in: its shims on PATH tell where it is.
pyenv_folders() {
  [ -z "${PYENV_ROOT:-}" ] || printf '%s\n' "$PYENV_ROOT"
  [ -z "${HOME:-}" ] || printf '%s\n' "$HOME/.pyenv"
  path_folders | sed -n 's,/shims/*$,,p'
  if command -v pyenv >/dev/null 2>&1; then pyenv root 2>/dev/null || true; fi
}

say_no_python() {
  say "no usable Python found for ${folder#"$root"/}."
  for choice in "$@"; do
    version=${choice%:*}
    say "looked for Python $version with venv and ensurepip: python$version, python3 and python on PATH, and versions/$version.* of pyenv"
    candidates "$version" | while IFS= read -r candidate; do say "  not usable: $candidate"; done
  done
  say "install one of them (on Debian and Ubuntu with its -venv package) and run this again"
}
