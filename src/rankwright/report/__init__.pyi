from .page import Chart as Chart
from .page import Page as Page
from .page import Section as Section
from .page import write_page as write_page
from .sections import write_comparison as write_comparison
from .sections import write_training as write_training
