# For the checks, to be sourced: the files of the project. In a checkout those that git knows or would know; elsewhere
# all that no build made.
# shellcheck shell=bash

# project_files PATTERN...: paths relative to the current folder, one a line
project_files()
{
    local pattern
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while read -r file; do
            [[ -f $file ]] && printf '%s\n' "$file"
        done
        return 0
    fi
    for pattern in "$@"; do
        find . \( -path './build*' -o -path ./.git -o -name __pycache__ \) -prune -o -type f -name "$pattern" -print
    done | sed 's|^\./||' | sort -u
}
