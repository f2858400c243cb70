/* Prints what stands in the option tables of kern and its plugins, for the check that each is documented and tested: one
 * line each, PLUGIN NAME LETTER (or -) and the words flag, box, profile, pool, registry, later. Test program. */
#include "catalog.h"
#include "image/registry_manifest.h"

#include <stdio.h>

/* The keys of [registry], which is no plugin's. */
static void print_registry(void)
{
    for (const struct kern_option *option = registry_option_table; option->name != NULL; option++)
        printf("registry %s - registry\n", option->name);
}

static void print(const char *plugin, const struct kern_option *option)
{
    for (; option != NULL && option->name != NULL; option++)
        printf("%s %s %s%s%s%s%s%s\n", plugin, option->name, option->letter != NULL ? option->letter : "-",
               option->flags & KERN_OPT_FLAG ? " flag" : "", option->flags & KERN_OPT_BOX ? " box" : "",
               option->flags & KERN_OPT_PROFILE ? " profile" : "",
               option->flags & KERN_OPT_POOL ? " pool" : "", option->flags & KERN_OPT_LATER ? " later" : "");
}

int main(void)
{
    struct core_catalog catalog = {0};
    struct kern_error err = {0};
    if (core_catalog_builtin(&catalog, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.message); /* the exit code says it too */
        return 1;
    }
    for (size_t i = 0; i < catalog.count; i++)
        print(catalog.plugin[i].table->name, catalog.plugin[i].table->options);
    print_registry();
    core_catalog_clear(&catalog);
    return 0;
}
