/* Places for boxes; see fleet.h. Host side. RUN/places has a byte for each place, and who holds the lock of byte N has place
 * N: nothing is to be counted, no two kerns take the same one, and a kern that is killed has given its place back. */
#include "fleet.h"

#include "cleanup.h"

#include <fcntl.h>
#include <sys/file.h>

int core_fleet_join(kern_box *box, struct kern_error *err)
{
    int64_t most = kern_get_int(&box->options, "max-concurrent");
    if (most <= 0)
        return 0;
    auto_fd fd = openat(box->run_fd, "places", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return kern_fail(err, errno, "cannot open \"places\" in run directory \"%s\"", box->run_path);
    for (int64_t place = 0; place < most; place++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place, .l_len = 1};
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            box->place_fd = steal_fd(&fd);
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES)
            return kern_fail(err, errno, "cannot lock \"places\" in run directory \"%s\"", box->run_path);
    }
    kern_refuse(err, 0, "cannot start box \"%s\": %lld are running, and KERN_MAX_CONCURRENT allows no more",
                box->name, (long long)most);
    kern_hint(err, "wait for one to end; \"kern ps\" shows them");
    return -EAGAIN;
}
