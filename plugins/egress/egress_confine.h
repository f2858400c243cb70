/* What the workers of this plugin still may do: the calls of a relay. */
#ifndef EGRESS_CONFINE_H
#define EGRESS_CONFINE_H

/* As many descriptors as the machine lets this user have: each connection takes two. */
void egress_raise_limit(void);
/* A second filter over the one of every worker: whatever is not needed kills. 0 or -errno. */
int egress_confine(void);

#endif
