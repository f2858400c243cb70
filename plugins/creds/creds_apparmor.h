/* --apparmor PROFILE: the command runs under the profile or not at all. The check runs in kern, the rest in the box's
 * first process. */
#ifndef CREDS_APPARMOR_H
#define CREDS_APPARMOR_H

#include "kern/plugin.h"

int creds_apparmor_check(const char *profile, struct kern_error *err);

/* Asks for the profile at the next exec. Before no_new_privs, under which only some changes are allowed. */
int creds_apparmor_ask(int root, const char *profile, struct kern_error *err);

#endif
