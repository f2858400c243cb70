/* How many boxes of one user may live at one time: KERN_MAX_CONCURRENT, or max-concurrent in [box]. Host side. */
#ifndef CORE_FLEET_H
#define CORE_FLEET_H

#include "box.h"

/* Takes one of the places, or refuses. Held by box->place_fd as long as any process of the box's supervision lives. */
int core_fleet_join(kern_box *box, struct kern_error *err);

#endif
