"""Images: import, load, save, and boxes of them, as root and as a user, with a range of ids and without."""

import json
import os
import shutil
import subprocess
import tarfile
import unittest

import kerntest
from kerntest import BoxCase, as_root_and_user


class Images(BoxCase):
    """A store of images of this class's own."""

    @classmethod
    def prepare_class(cls):
        cls.data = os.path.join(kerntest.scratch(), f"data-{cls.__name__}")
        os.mkdir(cls.data)
        kerntest.give(cls.data, cls.me)
        cls.env = {"XDG_DATA_HOME": cls.data}
        cls.import_root("base")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.data, ignore_errors=True)

    @classmethod
    def import_root(cls, name):
        result = kerntest.Running(["import", kerntest.root_folder(cls.me), name], cls.me, env=cls.env).wait()
        if result.code != 0:
            raise AssertionError(result)

    def verb(self, *words, code=0, **keywords):
        result = self.kern(*words, env=self.env, **keywords)
        self.assertEqual(result.code, code, result)
        return result

    def image(self, *command, name="base", options=(), **keywords):
        return self.box(*command, options=["--image", name, *options], env=self.env, **keywords)

    def says(self, *command, **keywords):
        result = self.image(*command, **keywords)
        self.assertEqual(result.code, 0, result)
        return result.out

    def store(self, *parts):
        return os.path.join(self.data, "kern/images", *parts)


@as_root_and_user
class Boxes(Images):
    def test_a_box_of_an_image(self):
        self.assertEqual(self.says("/bin/sh", "-c", "echo ran; id -u"), "ran\n0\n")

    def test_an_image_that_is_not_here(self):
        self.assert_failed(self.image("true", name="nothing", options=["--pull=never"]), 1, '"nothing"', "--pull never",
                           hint="kern pull nothing")

    def test_one_id_without_the_range(self):
        self.assertEqual(self.says("/bin/sh", "-c", "id -u; touch /x; stat -c %u:%g /x /bin/busybox",
                                   options=["--no-uid-range"]), "0\n0:0\n0:0\n")


if __name__ == "__main__":
    kerntest.main()
