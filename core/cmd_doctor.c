#include "cmd.h"
int core_cmd_doctor(int argc, char **argv)
{
    (void)argc, (void)argv;
    return 1;
}
