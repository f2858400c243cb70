/* kern: a verb and its words. Host side. */
#include "verbs.h"

int main(int argc, char **argv)
{
    return core_verbs_run(argc, argv);
}
