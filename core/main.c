/* kern: a verb and its words. Host side. */
#include "dispatch.h"

int main(int argc, char **argv)
{
    return core_dispatch(argc, argv);
}
