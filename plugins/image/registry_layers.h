/* The layers of a pull, several at a time. Runs in the client's worker. */
#ifndef REGISTRY_LAYERS_H
#define REGISTRY_LAYERS_H

#include "image_document.h"
#include "registry_session.h"

/* Serves what kern wants of these layers until it closes its end. `session` has one for each endpoint of the job; `first` is
 * the one that had the manifest. */
int registry_layers_serve(const struct registry_job *job, struct registry_session *session, uint32_t first,
                          const struct image_document *manifest, struct kern_error *err);

#endif
