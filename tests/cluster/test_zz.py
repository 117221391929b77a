import gc
async def test_a():
    """x"""
async def test_b():
    """x"""
def test_c():
    """x"""
    gc.collect()
