# For tests in shell, to be sourced. skip REASON ends the test as skipped; where KERN_MUST_WORK=1 says that everything
# must be there, it ends as failed.
# shellcheck shell=bash
skip()
{
    echo "skip: $*"
    [[ ${KERN_MUST_WORK:-} == 1 ]] && exit 1
    exit 77
}
