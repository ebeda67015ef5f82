"""Models as files: one safetensors file each, with nothing executable in it.

===============  ===================================================================================
``models``       :func:`save`, :func:`load`, :func:`model_digest`, and :class:`Checkpoint`
``scorer``       :func:`load_scorer`: scoring only, with NumPy alone, for servers and small images
``classes``      the closed tables of classes that a file may hold, and how they are rebuilt
``codec``        numbers, text, arrays, scorers and transforms as JSON plus named arrays, and back
``format``       the file itself: manifest, header, arrays, hashes, limits
===============  ===================================================================================

What a file promises
--------------------
* **Nothing in it runs.** It holds numbers, text and names. A name is looked up in a closed table;
  it never imports anything. There is no pickle, no ``eval`` and no object array.
* **Damage is detected.** The manifest and every array carry their SHA-256. A file that is cut off,
  changed or extended is refused with a :class:`~rankwright.exceptions.ModelFileError` that names
  the file; it never crashes the process and never gives different scores. The hashes protect
  against accidents: they do not prove who wrote the file.
* **Every value is checked**, even in a file whose hashes are right: sizes before anything is
  allocated, then types and shapes, then ranges, by the same constraints that ``fit`` applies.
* **A save is all or nothing.** After a crash or a power cut the path holds the old file or the new.
* **Old files stay readable.** Every later version of rankwright loads the files of every earlier
  release, with equal scores (to 1e-12; bit for bit on the same platform). To keep that promise, one
  small file of each kind and format is kept in ``tests/persist/museum`` and loaded in every test
  run; a parameter added later has a default that means the old behavior; a kind that was written
  once stays in the table. A file of a *newer* format is refused with the advice to upgrade.

What a file leaves out: metadata requests and ``set_output`` choices (set them again after loading),
and parameters that only steer training: callbacks, the cache folder of a pipeline, and a
``RandomState`` given as ``random_state`` (all loaded as None; an integer seed is kept).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
