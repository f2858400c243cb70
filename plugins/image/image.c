/* The root of a box from an image: finds the resolved image and tells the core and the rootfs plugin what it holds. prepare
 * runs in kern on the host; the mounts are made by the rootfs plugin. */
#include "image_manifest.h"

KERN_PLUGIN(IMAGE_MANIFEST, .state_size = 0);
